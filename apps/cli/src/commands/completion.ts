// completion: scripts for shells, which ask this program at each Tab. What it answers is from the table of commands.
import { type Command, Option } from 'commander'
import { candidatesFor, fileNames } from '../candidates.ts'
import type { Context } from '../context.ts'
import { printable } from '../terminal.ts'

// The first word is the program as it was typed. Bash splits words at `:` and `=`, too, so it passes the line as it is, and
// drops what is before the last of them in the current word.
const scripts = {
  bash: `_dormouse() {
  local IFS=$' \\t\\n' line=\${COMP_LINE:0:COMP_POINT} words current split each
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  current=\${words[\${#words[@]} - 1]}
  [[ $COMP_WORDBREAKS == *:* && $current == *[:=]* ]] && split=\${current%"\${current##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r each; do
    if [[ $each == ${fileNames} ]]; then compopt -o default -o bashdefault; continue; fi
    [[ $each == *: || $each == *= ]] && compopt -o nospace
    COMPREPLY+=("\${each#"$split"}")
  done < <("\${words[0]}" complete --plain -- "\${words[@]:1}" 2>/dev/null)
}
complete -F _dormouse dormouse
`,
  zsh: `#compdef dormouse
_dormouse() {
  local -a lines rows stems
  local each
  lines=("\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for each in $lines; do
    if [[ $each == ${fileNames} ]]; then _files; continue; fi
    local word=\${each%%$'\\t'*} said=\${each#*$'\\t'}
    case $word in
      *[:=]) stems+=("$word") ;;
      *) rows+=("\${word//:/\\\\:}:$said") ;;
    esac
  done
  (( $#rows )) && _describe 'dormouse' rows
  (( $#stems )) && compadd -S '' -- $stems
}
if [[ $funcstack[1] == _dormouse ]]; then _dormouse "$@"; else compdef _dormouse dormouse; fi
`,
  fish: `function __dormouse_complete
  set -l typed (commandline -opc)
  set -l current (commandline -ct)
  for each in ($typed[1] complete -- $typed[2..-1] "$current" 2>/dev/null)
    if test "$each" = ${fileNames}
      __fish_complete_path "$current"
    else
      printf '%s\\n' $each
    end
  end
end
complete -c dormouse -f -a '(__dormouse_complete)'
`,
}

const notes = `
bash:  dormouse completion bash > ~/.local/share/bash-completion/completions/dormouse
zsh:   dormouse completion zsh > a folder of $fpath, as _dormouse
fish:  dormouse completion fish > ~/.config/fish/completions/dormouse.fish
Or for this shell alone: source <(dormouse completion bash)

It completes commands, options and their values, and asks the service for ids of desktops and others.`

/** Adds the commands; the last of all, because it completes those before it. */
export function addCompletion(program: Command, context: Context): void {
  const { terminal } = context
  const shells = Object.keys(scripts) as (keyof typeof scripts)[]
  const completion = program
    .command('completion')
    .description('print a script that completes commands, options and ids in a shell')
    .addHelpText('after', notes)
  for (const shell of shells)
    completion
      .command(shell)
      .description(`the script for ${shell}`)
      .action(() => terminal.write(scripts[shell]))

  program
    .command('complete', { hidden: true })
    .description('for the scripts of `dormouse completion`: print what the last word may become')
    .argument('[words...]', 'the words of the line')
    .addOption(new Option('--plain', 'without descriptions'))
    .action(async (words: string[], { plain }: { plain?: boolean }) => {
      for (const { word, what = '' } of await candidatesFor(program, context, words))
        terminal.write(`${plain || word === fileNames ? word : `${word}\t${printable(what).replaceAll('\n', ' ')}`}\n`)
    })
}
