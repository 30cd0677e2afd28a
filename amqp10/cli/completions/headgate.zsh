#compdef headgate

_cyclopts_headgate() {
  local line state

  _arguments -C \
    '--help[Display this message and exit.]' \
    '-h[Display this message and exit.]' \
    '--version[Display application version.]' \
    '1: :->cmds' \
    '*::arg:->args'

  case $state in
    cmds)
      local -a commands
      commands=(
        'serve:Run the broker until it is interrupted or terminated.'
        'status:Show version, process id, listeners, alarms that are on, and file descriptors.'
        'why:Tell what holds a connection, a link or a queue up\: the first edge that blocks …'
        'top:Show the links of a broker every second until q is pressed. Links that wait com…'
        'drain:Let a broker finish its work before it is stopped.'
        'undrain:End maintenance mode\: the broker serves as usual again.'
        'publish:Send messages and wait until the broker has accepted all of them.'
        'consume:Receive messages, print each body as a line, and accept it.'
        'queues:Queues\: list, show, declare, delete and purge queues; look at messages, move me…'
        'exchanges:Exchanges\: list, show, declare and delete exchanges.'
        'bindings:Bindings from exchanges to queues and other exchanges\: list, show, create and d…'
        'connections:Connections\: list and show the connections of clients; close a connection.'
        'sessions:Sessions of AMQP 1.0 with their windows, as the broker sees them; close a sessi…'
        'links:Links with their link credit, as the broker sees them\: the direction is in for …'
        'link:Links with their link credit, as the broker sees them\: the direction is in for …'
        'channels:Channels of AMQP 0.9.1, with the reason why a channel waits.'
        'stages:Queues and the message store as stages of stage credit, with the stage that eac…'
        'limits:Show every limit, and how much of it is used.'
        'flow-map:Show who publishes where and who consumes, and what is blocked.'
        'timelines:Time lines\: the last five minutes of links, sessions, channels and queues.'
        'stalls:Links and AMQP 0.9.1 readers that wait now, with the reason and what has to cha…'
        'policies:Policies\: settings for all queues and exchanges whose names match a pattern.'
        'users:Users of the broker. Users in the configuration file are shown, and can be chan…'
        'vhosts:Virtual hosts\: separate queues, exchanges, bindings, policies, permissions and …'
        'permissions:What users may do with queues and exchanges, by patterns of their names.'
        'topic-permissions:With which routing keys and binding keys users may use topic exchanges.'
        'user-limits:How many connections, and channels and sessions, users may have, and how much t…'
        'audit:Show who did what, from where, with which result\: the audit log of a broker, on…'
        'definitions:Exchanges, queues, bindings, policies and users as a file\: export, diff, apply.…'
        'alarms:Alarms and notices. Publishers wait while an alarm is on. Raise and clear alarm…'
        'tls:TLS\: certificates for a trial, and those that a broker uses.'
        'memory:Memory\: how much the broker uses, and the watermark above which publishers wait.'
        'disk:Disk space\: how much is free, and the limit below which publishers wait.'
        'check:Check whether a broker is live, is ready and has no alarm, or whether a data fo…'
        'config:Check and show configurations.'
        'trace:Show the frames that a client and the broker send to each other.'
        'debug:Write the state of a broker to a file, to analyse a problem later.'
        'pipeline:The data pipeline on Spark\: it makes tables of flow events, and a report that n…'
        'store:The data folder of a stopped broker\: check it, compact it, recover data that wa…'
        'hash-password:Read a password and print its keys, which a table of users in the configuration…'
        'completion:Print the script that makes a shell complete the commands and options of headga…'
        'overview:Show the broker'\''s rates and counts, as the live stream does each second.'
      )
      _describe -t commands 'command' commands
      ;;
    args)
      case $words[1] in
        serve)
          case ${words[CURRENT]} in
            --config=*)
              compset -P '--config='
              _files
              return
              ;;
            --data=*)
              compset -P '--data='
              _files
              return
              ;;
          esac
          _arguments \
            '*--config[The configuration, a TOML file. Default\: none.]:config:_files' \
            '*--listen[HOST\:PORT to listen on. Can be given several times. Port 0 means any free port.]:listen' \
            '*--data[The data folder.]:data:_files' \
            '*--admin[HOST\:PORT of the admin server with the console and the metrics (default 127.0.0…]:admin' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        status)
          _arguments \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        why)
          case ${words[CURRENT]} in
            --kind=*)
              compset -P '--kind='
              compadd -- 'connection' 'link' 'address'
              return
              ;;
          esac
          _arguments \
            '1:SUBJECT' \
            "*--kind[The kind of SUBJECT. Default\: found by the form of SUBJECT.]:kind:(connection link address)" \
            '*-p[The virtual host of a queue. Default\: that of --url, or /.]:p' \
            '*--vhost[The virtual host of a queue. Default\: that of --url, or /.]:vhost' \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        top)
          case ${words[CURRENT]} in
            --token-file=*)
              compset -P '--token-file='
              _files
              return
              ;;
          esac
          _arguments \
            '*--url[The admin server, as http\://HOST\:PORT.]:url' \
            '*--token-file[A file with the admin server'\''s token.]:token-file:_files' \
            '*-p[Only links and connections of this virtual host. Default\: those of all, with th…]:p' \
            '*--vhost[Only links and connections of this virtual host. Default\: those of all, with th…]:vhost' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        drain)
          _arguments \
            '*--wait[Wait at most so many seconds until no message is unsettled, and show the progre…]:wait' \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        undrain)
          _arguments \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        publish)
          _arguments \
            '1:ADDRESS' \
            '*:BODY' \
            '*--count[Send each message so many times.]:count' \
            '*--size[Send a message with a body of so many bytes, instead of BODY.]:size' \
            '--transient[Do not keep the messages across a restart of the broker.]' \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        consume)
          _arguments \
            '1:ADDRESS' \
            '*--count[End after so many messages.]:count' \
            '*--credit[The most link credit to give.]:credit' \
            '--drain[End when the queue has no more ready messages.]' \
            '--json[Print a JSON object a line\: body, properties, annotations.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        queues)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all queues.'
                'show:Show all fields of one queue.'
                'declare:Declare a queue. A queue that exists with the same properties stays as it is.'
                'delete:Delete a queue with all its messages. It is no error when the queue does not ex…'
                'purge:Remove all ready messages of a queue. Messages that were delivered to a consume…'
                'peek:Show the first ready messages of a queue, which stay in the queue unchanged.'
                'move:Move messages from one queue to another, the oldest first, and wait until the m…'
                'replay:Move dead letters back, each to the queue in which it first became a dead lette…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                declare)
                  _arguments \
                    '1:NAME' \
                    '--transient[Do not keep the queue across a restart of the broker.]' \
                    '--auto-delete[Delete the queue when its last consumer leaves.]' \
                    '*--argument[An argument as KEY=VALUE. Can be given several times.]:argument' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:NAME' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                purge)
                  _arguments \
                    '1:NAME' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                peek)
                  _arguments \
                    '1:The queue'\''s name.' \
                    '*--count[The most messages to show.]:count' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                move)
                  _arguments \
                    '1:The queue'\''s name.' \
                    '2:The queue that the messages go to.' \
                    '*--count[The most messages to move; without it all that are ready now.]:count' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                replay)
                  _arguments \
                    '1:The queue'\''s name.' \
                    '*--count[The most messages to move; without it all that are ready now.]:count' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        exchanges)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all exchanges.'
                'show:Show all fields of one exchange.'
                'declare:Declare an exchange. An exchange that exists with the same properties stays as …'
                'delete:Delete an exchange with its bindings. It is no error when the exchange does not…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                declare)
                  _arguments \
                    '1:NAME' \
                    '*--type[direct, fanout, topic, headers or x-local-random.]:type' \
                    '--transient[Do not keep the exchange across a restart of the broker.]' \
                    '--auto-delete[Delete the exchange when its last binding is deleted.]' \
                    '--internal[Only other exchanges may send messages to the exchange.]' \
                    '*--argument[An argument as KEY=VALUE. Can be given several times.]:argument' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:NAME' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        bindings)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all bindings.'
                'show:Show all fields of one binding.'
                'create:Bind a queue or an exchange to an exchange. It is no error when the same bindin…'
                'delete:Delete the binding with exactly this key and these arguments. It is no error wh…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                create)
                  _arguments \
                    '1:SOURCE' \
                    '2:DESTINATION' \
                    '*--key[The binding key. Its meaning depends on the type of the exchange.]:key' \
                    '--to-exchange[DESTINATION is an exchange, not a queue.]' \
                    '*--argument[An argument as KEY=VALUE. Can be given several times.]:argument' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:SOURCE' \
                    '2:DESTINATION' \
                    '*--key[The binding key. Its meaning depends on the type of the exchange.]:key' \
                    '--to-exchange[DESTINATION is an exchange, not a queue.]' \
                    '*--argument[An argument as KEY=VALUE. Can be given several times.]:argument' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        connections)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all connections.'
                'show:Show all fields of one connection.'
                'close:Close a connection.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:The connection'\''s identity, for example c17.' \
                    '*--reason[The reason that the broker sends to the client.]:reason' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        sessions)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all sessions.'
                'show:Show all fields of one session.'
                'close:End a session with all its links.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:The session'\''s identity, for example c17/0.' \
                    '*--reason[The reason that the broker sends to the client.]:reason' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        links)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all links.'
                'show:Show all fields of one link.'
                'pause:Pause a link\: its publisher loses its link credit, its consumer gets no message…'
                'resume:End the pause of a link; it is no error when the link is not paused.'
                'set-credit:Limit the link credit of a publisher, or the messages that a consumer may hold …'
                'close:Detach a link.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                pause)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                resume)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set-credit)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '2:The most link credit that the publisher gets, or the most unsettled messages of…' \
                    '--reset[Use the limit of the configuration and the policies again.]' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '*--reason[The reason that the broker sends to the client.]:reason' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        link)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all links.'
                'show:Show all fields of one link.'
                'pause:Pause a link\: its publisher loses its link credit, its consumer gets no message…'
                'resume:End the pause of a link; it is no error when the link is not paused.'
                'set-credit:Limit the link credit of a publisher, or the messages that a consumer may hold …'
                'close:Detach a link.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                pause)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                resume)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set-credit)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '2:The most link credit that the publisher gets, or the most unsettled messages of…' \
                    '--reset[Use the limit of the configuration and the policies again.]' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:The link'\''s identity, for example c17/0/1.' \
                    '*--reason[The reason that the broker sends to the client.]:reason' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        channels)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all channels.'
                'show:Show all fields of one channel.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        stages)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all stages.'
                'show:Show all fields of one stage.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        limits)
          _arguments \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        flow-map)
          _arguments \
            '*--vhost[The virtual host.]:vhost' \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        timelines)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'show:Show the last five minutes of a link, session, channel or queue, with a value f…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                show)
                  _arguments \
                    "1:What it is.:(links sessions channels queues)" \
                    '2:Its identity, or the queue'\''s name.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        stalls)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all stalls.'
                'show:Show all fields of one stall.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[Only those of this virtual host. Default\: those of all.]:p' \
                    '*--vhost[Only those of this virtual host. Default\: those of all.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        policies)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all policies.'
                'show:Show all fields of one policy.'
                'set:Make a policy, or change the policy with this name; it applies at once.'
                'clear:Remove a policy; its settings end at once.'
                'explain:Show which policy applies to a queue, the effect of each key, and why other pol…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  _arguments \
                    '1:The policy'\''s name.' \
                    '2:A regular expression; a name matches when it contains a match.' \
                    '3:The keys and values, as a JSON object.' \
                    '*--priority[The policy with the highest priority applies to a queue.]:priority' \
                    '*--apply-to[all, queues, classic_queues, quorum_queues, streams or exchanges.]:apply-to' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:The policy'\''s name.' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                explain)
                  _arguments \
                    '1:The queue'\''s name.' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        users)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List the users and their tags.'
                'set:Make a user, or change the password or the tags of one.'
                'delete:Delete a user; the user'\''s connections are closed.'
                'show:Show one user.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  case ${words[CURRENT]} in
                    --hash=*)
                      compset -P '--hash='
                      compadd -- 'sha256' 'sha512'
                      return
                      ;;
                  esac
                  _arguments \
                    '1:The user'\''s name.' \
                    '--new-password[Ask for a new password.]' \
                    "*--hash[The hash of a new password's keys. The user logs in with SCRAM-SHA-256 or SCRAM…]:hash:(sha256 sha512)" \
                    '*--tags[The tags, with commas between them\: administrator, monitoring, policymaker, man…]:tags' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:The user'\''s name.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:The user'\''s name.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        vhosts)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List the virtual hosts.'
                'add:Make a virtual host; it is no error if there is one.'
                'limit:Limit the connections, queues and links of a virtual host, and how much is publ…'
                'delete:Delete a virtual host with its queues and messages; its connections are closed.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                add)
                  _arguments \
                    '1:The virtual host'\''s name.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                limit)
                  _arguments \
                    '1:The virtual host'\''s name.' \
                    '*--max-connections[The most connections; -1 for no limit. Without it, it stays.]:max-connections' \
                    '*--max-queues[The most queues; -1 for no limit. Without it, it stays.]:max-queues' \
                    '*--max-links[The most links of AMQP 1.0 that publish or consume; -1 for no limit. Without it…]:max-links' \
                    '*--publish-rate[The most messages a second that are published over AMQP 1.0; -1 for no limit. W…]:publish-rate' \
                    '*--publish-rate-bytes[The most bytes a second that are published over AMQP 1.0; -1 for no limit. With…]:publish-rate-bytes' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:The virtual host'\''s name.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        permissions)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List the permissions of all users.'
                'set:Set what a user may configure, write to and read from; an empty pattern allows …'
                'clear:Take the virtual host from a user; the user'\''s connections are closed.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  _arguments \
                    '1:The user'\''s name.' \
                    '2:A pattern\: queues and exchanges that the user may declare and delete.' \
                    '3:A pattern\: exchanges that the user may publish to, and bind others to.' \
                    '4:A pattern\: queues that the user may consume from, and exchanges to bind.' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:The user'\''s name.' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        topic-permissions)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List the topic permissions of all users.'
                'set:Restrict the keys with which a user may publish to a topic exchange, and bind t…'
                'clear:Remove the restriction of a user'\''s keys.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  _arguments \
                    '1:The user'\''s name.' \
                    '2:The name of a topic exchange.' \
                    '3:A pattern\: routing keys with which the user may publish.' \
                    '4:A pattern\: binding keys that the user may use.' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:The user'\''s name.' \
                    '*--exchange[The topic exchange; without it all.]:exchange' \
                    '*-p[The virtual host. Default\: that of --url, or /.]:p' \
                    '*--vhost[The virtual host. Default\: that of --url, or /.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        user-limits)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List the limits of users, and how much of them is used.'
                'set:Limit the connections, the channels and sessions, or the links that a user may …'
                'clear:Remove a limit of a user.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  _arguments \
                    '1:The user'\''s name.' \
                    "2:The limit.:(max-connections max-channels max-links publish-rate publish-rate-bytes)" \
                    '3:The most that the user may have; -1 for no limit.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:The user'\''s name.' \
                    "2:The limit.:(max-connections max-channels max-links publish-rate publish-rate-bytes)" \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        audit)
          case ${words[CURRENT]} in
            --event=*)
              compset -P '--event='
              compadd -- 'logins' 'refusals' 'definitions' 'users' 'operations' 'audit'
              return
              ;;
            --result=*)
              compset -P '--result='
              compadd -- 'done' 'refused' 'put-off' 'failed'
              return
              ;;
          esac
          _arguments \
            '1:The audit log.:_files' \
            '*--user[Only what this user did.]:user' \
            '*--action[Only this action, such as login or queues.declare; queues stands for all that b…]:action' \
            "*--event[Only this kind of event.]:event:(logins refusals definitions users operations audit)" \
            "*--result[Only acts with this result.]:result:(done refused put-off failed)" \
            '*--since[Only what happened since a time (2026-11-24T16\:00), or in the last 90s, 15min, …]:since' \
            '-f[Go on with what is recorded from now on, until the command is interrupted.]' \
            '--follow[Go on with what is recorded from now on, until the command is interrupted.]' \
            '--json[Print one JSON object on each line.]' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        definitions)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'export:Write all exchanges, queues, bindings, policies and users as JSON, in RabbitMQ'\''…'
                'diff:Show what applying a file would change, and change nothing. The exit code is 10…'
                'apply:Create the definitions that a file has and the broker does not have, and change…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                export)
                  _arguments \
                    '1:The file to write. Default\: standard output.:_files' \
                    '--json[With FILE\: print what was written as JSON.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                diff)
                  _arguments \
                    '1:A definitions file of Headgate or of RabbitMQ. - is standard input.:_files' \
                    '*--vhost[The virtual host in the file.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                apply)
                  _arguments \
                    '1:A definitions file of Headgate or of RabbitMQ. - is standard input.:_files' \
                    '--dry-run[Only show what would be done.]' \
                    '--delete-extra[Delete what the file does not have. Queues are deleted with their messages.]' \
                    '--keep-going[Continue after a failure.]' \
                    '*--vhost[The virtual host in the file.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        alarms)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'list:List all alarms.'
                'show:Show all fields of one alarm.'
                'set:Raise an alarm by hand\: publishers wait until it is cleared.'
                'clear:Clear an alarm that was raised by hand; it stays on while its measured value is…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                list)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:IDENTITY' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set)
                  _arguments \
                    '1:The alarm'\''s name\: memory or disk.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:The alarm'\''s name\: memory or disk.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        tls)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'init:Make an authority, and certificates of a server and of clients that it signs, f…'
                'status:Show the certificates in use, and until when they are valid.'
                'reload:Read the files of the certificates again, and use them for new connections; a f…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                init)
                  _arguments \
                    '1:The folder for the files.:_files' \
                    '*--host[A host name or IP address of the server. Can be given several times.]:host' \
                    '*--client[The name of a user who gets a certificate. Can be given several times. Default\:…]:client' \
                    '*--days[How long the certificates are valid.]:days' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                status)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                reload)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        memory)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'set-watermark:Set the memory watermark until the broker is restarted; with 0 all publishers w…'
                'status:Show the used memory, the watermark, the limit in bytes, and the alarm.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                set-watermark)
                  _arguments \
                    '1:A fraction of the memory of the machine, from 0 to 1.0; or the word absolute.' \
                    '2:After absolute\: a number of bytes, or a size such as 1GB.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                status)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        disk)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'set-free-limit:Set the limit of free disk space until the broker is restarted.'
                'status:Show the free disk space of the data folder, its limit, and the alarm.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                set-free-limit)
                  _arguments \
                    '1:A number of bytes, a size such as 1GB, or the word mem_relative.' \
                    '2:After mem_relative\: the limit as a multiple of the memory of the machine.' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                status)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        check)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'live:Check that the broker accepts connections, accepts the login and answers the op…'
                'ready:Check that the broker is live and accepts new connections. The exit code is 10 …'
                'alarms:Check that no alarm is on. The exit code is 10 when an alarm makes publishers w…'
                'store:Check that all records in the data folder of a stopped broker can be read. The …'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                live)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                ready)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                alarms)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                store)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        config)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'check:Check whether a broker can use a configuration, and print all errors in it.'
                'show:Print all settings of a configuration as a TOML file, without the keys of passw…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                check)
                  _arguments \
                    '1:A TOML file. Without it\: the default configuration.:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:A TOML file. Without it\: the default configuration.:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        trace)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'frames:Print the frames of a connection as they are sent and received, until the comma…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                frames)
                  _arguments \
                    '1:CONNECTION' \
                    '*--seconds[End after so many seconds.]:seconds' \
                    '*--count[End after so many lines.]:count' \
                    '*--performative[Only frames with this name, such as flow, attach or basic.publish. Can be given…]:performative' \
                    '*--channel[Only frames of this channel.]:channel' \
                    '*--handle[Only frames with this handle. The two sides may use different handles for a lin…]:handle' \
                    '*--link[Only frames of this link, in both directions. CONNECTION can then be left out.]:link' \
                    '--all[Print each frame, also the frames that come with each message.]' \
                    '--json[Print one JSON object on each line.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        debug)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'bundle:Write one zip file with the state of a broker\: status, configuration, all rows …'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                bundle)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '1:The file to write. Default\: a name with the time, in the current folder.:_files' \
                    '*--data[Also check this data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        pipeline)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'run:Add the flow events that are there now to the tables, and end.'
                'watch:Send alerts about links that wait to a queue, until the command is interrupted.'
                'report:Write an HTML page from the tables\: rates, blocked time by reason, and the bott…'
                'generate:Make flow events with a known bottleneck, for tests of the pipeline.'
                'archive:Archive the messages of a queue or a stream as Parquet, by address and day.'
                'replay:Send archived messages again.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                run)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                watch)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                report)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                generate)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                archive)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                replay)
                  _arguments \
                    '*:Options of python -m pipeline. Its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        store)
          _arguments -C \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]' \
            '1: :->cmds' \
            '*::arg:->args'

          case $state in
            cmds)
              local -a commands
              commands=(
                'status:Show the lanes of the store.'
                'check:Read every record and describe each damaged one. Nothing is changed.'
                'dump:Print a line for every definition and every record, sound and damaged. Nothing …'
                'compact:Free the disk space of settled messages at once. A running broker does this ste…'
                'lost:List the data in lost+found\: a start has set aside the data of queues that have…'
                'adopt:Define a queue again from data that a start has set aside. The queue gets its m…'
                'discard:Delete data that a start has set aside. It cannot be recovered after that.'
                'rebuild:Make the definitions of queues again from their folders, when both files of def…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                status)
                  _arguments \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                check)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                dump)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print one JSON object on each line.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                compact)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                lost)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                adopt)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '1:The name of the queue, or of the folder in lost+found.' \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '*--as[A new name for the queue.]:as' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                discard)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '1:The name of the queue, or of the folder in lost+found.' \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--yes[Delete it. Without this the command says what it would delete.]' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                rebuild)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a stopped broker.]:data:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
              esac
              ;;
          esac
          ;;
        hash-password)
          case ${words[CURRENT]} in
            --hash=*)
              compset -P '--hash='
              compadd -- 'sha256' 'sha512'
              return
              ;;
          esac
          _arguments \
            '*--iterations[Rounds of PBKDF2. A client with SCRAM computes as many rounds for each login.]:iterations' \
            "*--hash[The hash of the keys. The user logs in with SCRAM-SHA-256 or SCRAM-SHA-512, or …]:hash:(sha256 sha512)" \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        completion)
          _arguments \
            "1:The shell that will run the script.:(bash zsh fish)" \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        overview)
          _arguments \
            '--json[Print JSON instead of a table.]' \
            '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
      esac
      ;;
  esac
}

