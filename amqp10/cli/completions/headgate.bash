# Completion of headgate for bash. The command itself knows what may follow the words that are there.
_headgate() {
    local IFS=$'\n'
    COMPREPLY=($(headgate completion bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
}
complete -o bashdefault -o default -F _headgate headgate
