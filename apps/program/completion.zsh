#compdef @program@
# Completion of @program@ in zsh; made by `@program@ completion zsh`.

# Offers the words of an array, after some of which a value follows, and what another command offers.
_stagecraft_list() {
  local status_of_all=1
  local -a all=(${(P)1})
  if [[ $PREFIX == *=* ]]; then
    compadd -- ${(M)all:#*=?*} && status_of_all=0
  else
    compadd -S '' -- ${^${(u)${(M)all:#*=*}%%=*}}= && status_of_all=0
    compadd -- ${all:#*=*} && status_of_all=0
  fi
  (( $# > 1 )) && "${@:2}" && status_of_all=0
  return status_of_all
}

# The same for a list with commas: after the first, offers values of what the list began with.
_stagecraft_items() {
  if [[ $PREFIX != *,* ]]; then
    _stagecraft_list "$@"
    return
  fi
  local -a all=(${(P)1})
  if [[ $PREFIX == *=* ]]; then
    all=(${(M)all:#${PREFIX%%=*}=?*})
    all=(${all#*=})
  fi
  compset -P '*,'
  compadd -S '' -- ${all:#*=*}
}

_@program@() {
  local curcontext=$curcontext command=$words[2]
  local -a words_of_program specs
@lists@  if (( CURRENT == 2 )); then
    words_of_program=(
@commands@    '--help:print the commands'
      '--version:print the version'
    )
    _describe command words_of_program
    return
  fi
  shift words
  (( CURRENT-- ))
  case $command in
    @with_subcommands@)
      if (( CURRENT > 2 )); then
        command+=" $words[2]"
        shift words
        (( CURRENT-- ))
      fi
      ;;
  esac
  case $command in
@cases@esac
  _arguments -s $specs
}

# As a file of fpath this is the body of the first call; sourced, it registers the function.
if [[ $funcstack[1] == _@program@ ]]; then
  _@program@ "$@"
elif (( $+functions[compdef] )); then
  compdef _@program@ @program@
else
  print -u2 "@program@: call compinit before this, which completions need"
fi
