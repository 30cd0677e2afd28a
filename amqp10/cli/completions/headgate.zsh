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
        'why:Tell what holds somebody up\: the first edge that blocks on the way from publish…'
        'top:Show the links of a broker, those first that wait, and why\: again each second, …'
        'drain:Let a broker finish what is under way, before it is stopped.'
        'undrain:Let a broker serve as usual again, after headgate drain.'
        'publish:Send messages and wait until the broker has accepted all of them.'
        'consume:Receive messages, print each body as a line, and accept it.'
        'queues:Queues\: list, show, declare, delete and purge them; look at messages, move them.'
        'exchanges:Exchanges\: list, show, declare and delete them.'
        'bindings:Bindings, from exchanges to queues and other exchanges\: list, show, create and …'
        'connections:Who is connected; close a connection.'
        'sessions:Sessions with their windows, as the broker sees them; close a session.'
        'links:Links with their link credit, as the broker sees them\: in is from a publisher, …'
        'link:Links with their link credit, as the broker sees them\: in is from a publisher, …'
        'channels:AMQP 0.9.1 channels, with what holds them up.'
        'stages:Queues and the message store as stages of stage credit, with what holds them up.'
        'stalls:Links and AMQP 0.9.1 readers that stand still now, with the reason and what has…'
        'policies:Policies\: settings for queues and exchanges, by patterns of their names.'
        'definitions:Exchanges, queues, bindings and policies as a file\: export, diff, apply. Files …'
        'alarms:Alarms\: while one is on, publishers wait; notices are only shown. Raise and cle…'
        'memory:Memory\: how much is used, and the watermark above which publishers wait.'
        'disk:Disk space\: how much is free, and the limit below which publishers wait.'
        'check:Ask whether the broker is live, is ready, has alarms, or has a sound data folde…'
        'config:Check and show configurations.'
        'trace:What a connection and the broker say to each other.'
        'debug:Gather what somebody needs who was not there.'
        'pipeline:The data pipeline on Spark\: flow events become tables, and tables become a repo…'
        'store:The data folder of a broker that is stopped\: check, compact, give back what was…'
        'hash-password:Read a password and print its keys, for scram in a \[\[users\]\] table of the confi…'
        'completion:Print the script that makes a shell complete the commands and options of headga…'
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
            '*--listen[HOST\:PORT to listen on; may be given several times. With port 0, any free port.]:listen' \
            '--empty-listen[HOST\:PORT to listen on; may be given several times. With port 0, any free port.]' \
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
            "*--kind[What SUBJECT is, where its form does not tell.]:kind:(connection link address)" \
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
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        drain)
          _arguments \
            '*--wait[Wait so many seconds at most until nothing is unsettled, and show how far it is.]:wait' \
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
            '*--count[Send everything so many times.]:count' \
            '*--size[Instead of a BODY\: one of so many bytes.]:size' \
            '--transient[The messages do not outlive the broker.]' \
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
            '--drain[End when nothing is left.]' \
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
                'show:Show everything about one queue.'
                'declare:Make a queue, or find that it exists and is the same.'
                'delete:Delete a queue with everything in it. One that does not exist is deleted alread…'
                'purge:Remove the messages of a queue that are ready. Those that a consumer has are no…'
                'peek:Look at the first messages of a queue. They stay as they are, and no consumer n…'
                'move:Move messages of a queue into another one, the oldest first, and wait until it …'
                'replay:Send dead letters back, each into the queue in which it died first, and wait un…'
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
                    '1:NAME' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                declare)
                  _arguments \
                    '1:NAME' \
                    '--transient[The queue does not outlive the broker.]' \
                    '--auto-delete[Delete it with its last consumer.]' \
                    '*--argument[KEY=VALUE; may be given several times.]:argument' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:NAME' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                purge)
                  _arguments \
                    '1:NAME' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                peek)
                  _arguments \
                    '1:NAME' \
                    '*--count[How many messages, from 1 to 100.]:count' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                move)
                  _arguments \
                    '1:SOURCE' \
                    '2:TARGET' \
                    '*--count[How many at most; all that are ready now unless it is given.]:count' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                replay)
                  _arguments \
                    '1:NAME' \
                    '*--count[How many at most; all that are ready now unless it is given.]:count' \
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
                'show:Show everything about one exchange.'
                'declare:Make an exchange, or find that it exists and is the same.'
                'delete:Delete an exchange with its bindings. One that does not exist is deleted alread…'
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
                declare)
                  _arguments \
                    '1:NAME' \
                    '*--type[direct, fanout, topic, headers or x-local-random.]:type' \
                    '--transient[The exchange does not outlive the broker.]' \
                    '--auto-delete[Delete it with the last binding that leaves it.]' \
                    '--internal[Only other exchanges may send to it.]' \
                    '*--argument[KEY=VALUE; may be given several times.]:argument' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                delete)
                  _arguments \
                    '1:NAME' \
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
                'show:Show everything about one binding.'
                'create:Bind a queue or an exchange to an exchange. What is bound so already stays so.'
                'delete:Remove the binding that has exactly this key and these arguments. One that does…'
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
                create)
                  _arguments \
                    '1:SOURCE' \
                    '2:DESTINATION' \
                    '*--key[The binding key; what it means depends on the type of the exchange.]:key' \
                    '--to-exchange[DESTINATION is an exchange and not a queue.]' \
                    '*--argument[KEY=VALUE; may be given several times.]:argument' \
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
                    '*--key[The binding key; what it means depends on the type of the exchange.]:key' \
                    '--to-exchange[DESTINATION is an exchange and not a queue.]' \
                    '*--argument[KEY=VALUE; may be given several times.]:argument' \
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
                'show:Show everything about one connection.'
                'close:Close a connection; its client is told that an operator did.'
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
                close)
                  _arguments \
                    '1:IDENTITY' \
                    '*--reason[What the client is told.]:reason' \
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
                'show:Show everything about one session.'
                'close:End a session with all its links; its client is told that an operator did, with…'
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
                close)
                  _arguments \
                    '1:SESSION' \
                    '*--reason[What the client is told.]:reason' \
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
                'show:Show everything about one link.'
                'pause:Stop a link\: a publisher loses its link credit, a consumer gets nothing for its…'
                'resume:Let a link go on that was paused.'
                'set-credit:Bound the link credit of a publisher. What it has beyond that is taken back. Th…'
                'close:Detach a link; its client is told that an operator did, with amqp\:link\:detach-f…'
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
                pause)
                  _arguments \
                    '1:LINK' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                resume)
                  _arguments \
                    '1:LINK' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set-credit)
                  _arguments \
                    '1:LINK' \
                    '2:The most link credit that its publisher gets, 1 or more.' \
                    '--reset[Back to what configuration and policies say.]' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:LINK' \
                    '*--reason[What the client is told.]:reason' \
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
                'show:Show everything about one link.'
                'pause:Stop a link\: a publisher loses its link credit, a consumer gets nothing for its…'
                'resume:Let a link go on that was paused.'
                'set-credit:Bound the link credit of a publisher. What it has beyond that is taken back. Th…'
                'close:Detach a link; its client is told that an operator did, with amqp\:link\:detach-f…'
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
                pause)
                  _arguments \
                    '1:LINK' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                resume)
                  _arguments \
                    '1:LINK' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                set-credit)
                  _arguments \
                    '1:LINK' \
                    '2:The most link credit that its publisher gets, 1 or more.' \
                    '--reset[Back to what configuration and policies say.]' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                close)
                  _arguments \
                    '1:LINK' \
                    '*--reason[What the client is told.]:reason' \
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
                'show:Show everything about one channel.'
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
                'show:Show everything about one stage.'
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
                'show:Show everything about one stall.'
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
                'set:Make a policy, or change the one of this name. It is in force at once.'
                'clear:Remove a policy. What it said is no longer in force at once.'
                'list:List all policies.'
                'explain:Say which policy holds for a queue and what each of its keys does, and why the …'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                set)
                  _arguments \
                    '1:NAME' \
                    '2:A regular expression that is searched for in names.' \
                    '3:A JSON object of keys and values.' \
                    '*--priority[Of several policies for a queue, the highest one holds.]:priority' \
                    '*--apply-to[all, queues, classic_queues, quorum_queues, streams or exchanges.]:apply-to' \
                    '*-p[The virtual host; there is only '\''/'\''.]:p' \
                    '*--vhost[The virtual host; there is only '\''/'\''.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:NAME' \
                    '*-p[The virtual host; there is only '\''/'\''.]:p' \
                    '*--vhost[The virtual host; there is only '\''/'\''.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                list)
                  _arguments \
                    '*-p[The virtual host; there is only '\''/'\''.]:p' \
                    '*--vhost[The virtual host; there is only '\''/'\''.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                explain)
                  _arguments \
                    '1:QUEUE' \
                    '*-p[The virtual host; there is only '\''/'\''.]:p' \
                    '*--vhost[The virtual host; there is only '\''/'\''.]:vhost' \
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
                'export:Write all exchanges, queues, bindings and policies as JSON, in RabbitMQ'\''s form.'
                'diff:Say what applying a file would change. Nothing is changed. The exit code is 10 …'
                'apply:Make what a file has and the broker has not, and change policies.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                export)
                  _arguments \
                    '1:Where to write; standard output unless it is given.:_files' \
                    '--json[With FILE\: say as JSON what was written.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                diff)
                  _arguments \
                    '1:A definitions file\: of Headgate, or of RabbitMQ. - is standard input.:_files' \
                    '*--vhost[Which virtual host of the file is meant.]:vhost' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                apply)
                  _arguments \
                    '1:A definitions file\: of Headgate, or of RabbitMQ. - is standard input.:_files' \
                    '--dry-run[Only say what would be done.]' \
                    '--delete-extra[Delete what the file does not have, queues with their messages.]' \
                    '--keep-going[Go on behind a failure.]' \
                    '*--vhost[Which virtual host of the file is meant.]:vhost' \
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
                'show:Show everything about one alarm.'
                'set:Raise an alarm by hand\: publishers wait until it is cleared.'
                'clear:Clear an alarm that was raised by hand. It stays on while what it measures is s…'
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
                    '1:NAME' \
                    '--json[Print JSON instead of a table.]' \
                    '*--url[The broker, as amqp\://USER\:PASSWORD@HOST\:PORT.]:url' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                clear)
                  _arguments \
                    '1:NAME' \
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
                'status:Show the memory used, the watermark, the limit that it makes, and the alarm.'
                'set-watermark:Set another watermark, until the broker is started again. 0 lets nobody publish.'
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
                set-watermark)
                  _arguments \
                    '1:A share of all memory, from 0 to 1.0; or the word absolute.' \
                    '2:Behind absolute\: a number of bytes, or a size such as 1GB.' \
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
                'status:Show the free space on the data folder'\''s disk, the limit, and the alarm.'
                'set-free-limit:Set another limit, until the broker is started again.'
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
                set-free-limit)
                  _arguments \
                    '1:A number of bytes, a size such as 1GB, or the word mem_relative.' \
                    '2:Behind mem_relative\: how many times all memory.' \
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
                'live:Whether the broker accepts connections, lets the user in and answers the open o…'
                'ready:Whether the broker is live and is to get new connections. The exit code is 10 w…'
                'alarms:Whether no alarm is on, so that everybody can publish. The exit code is 10 when…'
                'store:Whether every record of a data folder that no broker uses can be read. The exit…'
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
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
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
                'check:Say whether a configuration can be used, and if not, everything that is wrong w…'
                'show:Show every setting in force, as a file. The keys of passwords are left out.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                check)
                  _arguments \
                    '1:A TOML file. Without it\: the defaults.:_files' \
                    '--json[Print JSON instead of a table.]' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                show)
                  _arguments \
                    '1:A TOML file. Without it\: the defaults.:_files' \
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
                'frames:Print the frames of a connection as they come and go, until interrupted.'
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
                    '*--performative[Only these, each in full\: flow, attach, transfer, basic.publish; may be given s…]:performative' \
                    '--empty-performative[Only these, each in full\: flow, attach, transfer, basic.publish; may be given s…]' \
                    '*--channel[Only frames of this channel.]:channel' \
                    '*--handle[Only frames of the link with this handle, which may be another one on either si…]:handle' \
                    '*--link[Only frames of this link, in both directions; CONNECTION, which it names too, m…]:link' \
                    '--all[Each frame, also those that come with each message.]' \
                    '--json[Print a JSON object a line.]' \
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
                'bundle:Write one zip file with the state of a broker\: status, configuration, everythin…'
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
                    '1:Where to write it. Without it\: a name with the time, here.:_files' \
                    '*--data[The data folder of a broker that is stopped, to be checked.]:data:_files' \
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
                'run:Bring the tables up to date with what there is now, and end.'
                'watch:Tell a queue of what stands still, until it is interrupted.'
                'report:Write one HTML page from the tables\: rates, blocked time by reason, and the ver…'
                'generate:Make flow events with known answers, for trials of the pipeline.'
                'archive:Keep messages of a queue or a stream as Parquet, by address and day.'
                'replay:Send archived messages again.'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                run)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                watch)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                report)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                generate)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                archive)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
                    '--help[Display this message and exit.]' \
                    '-h[Display this message and exit.]' \
                    '--version[Display application version.]'

                  ;;
                replay)
                  _arguments \
                    '*:Options of python -m pipeline; its --help lists them for each command.' \
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
                'check:Read every record, and describe each that is damaged. Nothing is changed.'
                'dump:Print a line for every definition and every record, sound or not. Nothing is ch…'
                'compact:Give the space of settled messages back, as a running broker does by and by.'
                'lost:List data of queues that no definition knows\: a start has set it aside in lost+…'
                'adopt:Define a queue again from what a start has set aside, with its messages.'
                'discard:Delete data for good that a start has set aside.'
                'rebuild:Make the definitions of queues anew from what their folders say, when both file…'
              )
              _describe -t commands 'command' commands
              ;;
            args)
              case $words[1] in
                check)
                  case ${words[CURRENT]} in
                    --data=*)
                      compset -P '--data='
                      _files
                      return
                      ;;
                  esac
                  _arguments \
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
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
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
                    '--json[Print a JSON object a line.]' \
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
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
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
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
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
                    '*--entry[The name of the queue, or of the folder in lost+found.]:entry' \
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
                    '*--as[Another name for the queue.]:as' \
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
                    '*--entry[The name of the queue, or of the folder in lost+found.]:entry' \
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
                    '--yes[Delete it. Without this the command says what it would delete.]' \
                    '--no-yes[Delete it. Without this the command says what it would delete.]' \
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
                    '*--data[The data folder of a broker that is stopped.]:data:_files' \
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
          _arguments \
            '*--iterations[Rounds of PBKDF2. Each client with SCRAM computes as many at every login.]:iterations' \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
        completion)
          _arguments \
            "1:For which shell.:(bash zsh fish)" \
            '--help[Display this message and exit.]' \
            '-h[Display this message and exit.]' \
            '--version[Display application version.]'

          ;;
      esac
      ;;
  esac
}

