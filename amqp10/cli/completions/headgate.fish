# Completion of headgate for fish. The command itself knows what may follow the words that are there.
complete -c headgate -a '(headgate completion fish -- (commandline -opc) (commandline -ct) 2>/dev/null)'
