#compdef @program@
# Completion of @program@ in zsh; made by `@program@ completion zsh`.

local curcontext=$curcontext command=$words[2]
local -a words_of_program specs
if (( CURRENT == 2 )); then
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
