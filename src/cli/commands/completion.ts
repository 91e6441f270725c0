// `dcnr completion`: shell completion scripts made from the commands and their flags.

import { fail } from "../../core/errors.ts";
import { type Command, commonOptions } from "../command.ts";

export const command: Command = {
  summary: "Print a completion script for bash, zsh or fish.",
  positionals: [{ name: "SHELL" }],
  examples: [
    "source <(dcnr completion bash)",
    "dcnr completion zsh > ~/.zfunc/_dcnr",
    "dcnr completion fish > ~/.config/fish/completions/dcnr.fish",
  ],
  run: async ({ arguments: [shell], commands, flags, out }) => {
    const words = await Promise.all(
      commands.map(async (entry) => {
        const { command: loaded } = await entry.load();
        const names = Object.keys({ ...loaded.options, ...commonOptions }).map((name) => `--${name}`);
        return { words: entry.words, summary: entry.summary, flags: names };
      }),
    );
    if (flags.is("json")) return void out.json(words);
    if (shell === "bash" || shell === "zsh") out.raw(bashScript(words, shell === "zsh"));
    else if (shell === "fish") out.raw(fishScript(words));
    else fail("invalid_argument", `there is no completion for "${shell}": choose bash, zsh or fish`);
    return undefined;
  },
};

interface Words {
  readonly words: string;
  readonly summary: string;
  readonly flags: readonly string[];
}

function bashScript(all: readonly Words[], zsh: boolean): string {
  const firsts = [...new Set(all.map(({ words }) => words.split(" ")[0]))].join(" ");
  const nouns = [...new Set(all.filter(({ words }) => words.includes(" ")).map(({ words }) => words.split(" ")[0]))];
  const cases = [
    ...nouns.map((noun) => {
      const verbs = all.filter(({ words }) => words.startsWith(`${noun} `)).map(({ words }) => words.split(" ")[1]);
      return `    "${noun}") words="${verbs.join(" ")}" ;;`;
    }),
    ...all.map(({ words, flags }) => `    "${words}") words="${flags.join(" ")}" ;;`),
  ];
  return `${zsh ? "autoload -U +X bashcompinit && bashcompinit\n" : ""}_dcnr() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words=""
  local command="\${COMP_WORDS[*]:1:2}"
  [ "$COMP_CWORD" -eq 1 ] && command=""
  [ "$COMP_CWORD" -eq 2 ] && command="\${COMP_WORDS[1]}"
  case "$command" in
    "") words="${firsts}" ;;
${cases.join("\n")}
    *) case "\${COMP_WORDS[1]}" in
${all
  .filter(({ words }) => !words.includes(" "))
  .map(({ words, flags }) => `      "${words}") words="${flags.join(" ")}" ;;`)
  .join("\n")}
    esac ;;
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
  [ "\${#COMPREPLY[@]}" -eq 0 ] && COMPREPLY=( $(compgen -f -- "$current") )
}
complete -F _dcnr dcnr
`;
}

function fishScript(all: readonly Words[]): string {
  const lines = all.flatMap(({ words, summary, flags }) => {
    const [first, second] = words.split(" ");
    const condition = second
      ? `__fish_seen_subcommand_from ${first}; and __fish_seen_subcommand_from ${second}`
      : `__fish_seen_subcommand_from ${first}`;
    const offer = second
      ? `complete -c dcnr -f -n "__fish_seen_subcommand_from ${first}" -a ${second} -d '${summary.replaceAll("'", "")}'`
      : `complete -c dcnr -f -n __fish_use_subcommand -a ${first} -d '${summary.replaceAll("'", "")}'`;
    return [offer, ...flags.map((flag) => `complete -c dcnr -n "${condition}" -l ${flag.slice(2)}`)];
  });
  const nouns = [...new Set(all.filter(({ words }) => words.includes(" ")).map(({ words }) => words.split(" ")[0]))];
  return [...nouns.map((noun) => `complete -c dcnr -f -n __fish_use_subcommand -a ${noun}`), ...lines, ""].join("\n");
}
