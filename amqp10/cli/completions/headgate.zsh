#compdef headgate
# Completion of headgate for zsh. The command itself knows what may follow the words that are there.
_headgate() {
    local -a found
    found=("${(@f)$(headgate completion zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        _describe headgate found
    else
        _files
    fi
}
if [[ "$funcstack[1]" = _headgate ]]; then
    _headgate "$@"
else
    compdef _headgate headgate
fi
