# Completion of @program@ in bash; made by `@program@ completion bash`.

@function@() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} options= words= extensions= kind=none list= commas= before= is_value= extension path name= at=0 word
  local -a found
@lists@  COMPREPLY=()
  # bash takes `=` for a word of its own: after an option, or after the name in KEY=VALUE.
  if [ "$current" = = ]; then
    current= name=$previous at=$((COMP_CWORD-2))
  elif [ "$previous" = = ]; then
    name=${COMP_WORDS[COMP_CWORD-2]} at=$((COMP_CWORD-3))
  fi
  if [[ $name == -* ]]; then
    previous=$name name=
  elif [ -n "$name" ]; then
    [ "${COMP_WORDS[at]}" = = ] && at=$((at-1))
    previous=${COMP_WORDS[at]}
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '@commands@ --help --version' -- "$current")
    return
  fi
  case $command in
    @with_subcommands@) [ "$COMP_CWORD" -gt 2 ] && command+=" ${COMP_WORDS[2]}" ;;
  esac
  case $command in
@cases@  esac
  if [ -z "$is_value" ] && [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  if [ -n "$commas" ] && [[ $current == *,* ]]; then  # what is before the last item stays
    before=${current%,*}, current=${current##*,} kind=none extensions=
  fi
  if [ -n "$name" ]; then
    for word in ${list:+${!list}}; do
      [[ $word == "$name"=?* ]] && words+=" ${word#*=}"
    done
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$current")
    return
  fi
  for word in ${list:+${!list}}; do
    [[ $word == *=?* ]] && word=${word%%=*}=
    [[ " $words " == *" $word "* ]] || words+=" $word"
  done
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "$current")
  [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
  if [ -n "$extensions" ]; then
    for extension in $extensions; do
      mapfile -t found < <(compgen -f -X "!*.$extension" -- "$current")
      COMPREPLY+=("${found[@]}")
    done
    kind=folder
  fi
  case $kind in
    file) mapfile -t found < <(compgen -f -- "$current") ;;
    folder) mapfile -t found < <(compgen -d -- "$current") ;;
    none) return ;;
  esac
  COMPREPLY+=("${found[@]}")
  if [[ ${current##*/} != .* ]]; then  # what is hidden, only after a dot
    found=("${COMPREPLY[@]}")
    COMPREPLY=()
    for path in "${found[@]}"; do
      [[ ${path##*/} == .* ]] || COMPREPLY+=("$path")
    done
  fi
  compopt -o filenames 2>/dev/null
}

complete -F @function@ @program@
