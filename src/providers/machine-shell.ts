// PNodes on machines with a POSIX shell: this one (`process`), or those that ssh reaches (`ssh`). What is started is found
// again by its folder's name in the list of processes, so nothing has to be remembered; scripts go by standard input, where
// nobody else reads the link.

import { fail } from "../core/errors.ts";
import { joinWords, labelPrefix, linkVariable, quoted, shellWords } from "./join-command.ts";
import { type CommandResult, isInstance, type Label, type Offer, type Seen, type Wanted } from "./provider.ts";

export interface MachineShell {
  /** For people: "this machine", "host maple". */
  readonly place: string;
  readonly program: string;
  /** In which PNodes have folders of their own. A `~/` at its beginning is the user's home. */
  readonly folder: string;
  readonly flags: readonly string[];
  run(script: string): Promise<CommandResult>;
}

const logBytes = 4_000;

/** A folder as the shell reads it: the home stays open, the rest is quoted. */
function path(folder: string, name = ""): string {
  const whole = name === "" ? folder : `${folder}/${name}`;
  return whole.startsWith("~/") ? `"$HOME"/${quoted(whole.slice(2))}` : quoted(whole);
}

async function done(shell: MachineShell, script: string, what: string): Promise<string> {
  const { code, out, err } = await shell.run(script);
  if (code !== 0) fail("unavailable", `${what} on ${shell.place} failed: ${lastLine(err) || `code ${code}`}`);
  return out;
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

export async function checkShell(shell: MachineShell): Promise<string> {
  const out = await done(
    shell,
    `${quoted(shell.program)} version --json >/dev/null 2>&1 || ` +
      `{ echo ${quoted(`${shell.program} does not run there: install DCNR, or give --set program=PATH`)} >&2; exit 1; }\n` +
      "ps -A -o pid= >/dev/null || exit 1\nuname -sm\n",
    "the look",
  );
  return `${shell.place} answers (${out.trim()}), and ${shell.program} runs there`;
}

/** Cores and memory of a machine that nobody described. */
export async function shapeOf(shell: MachineShell): Promise<Pick<Offer, "cores" | "memoryBytes">> {
  const script =
    "getconf _NPROCESSORS_ONLN\n" +
    "if [ -r /proc/meminfo ]; then awk '/^MemTotal/ {print $2 * 1024}' /proc/meminfo; else sysctl -n hw.memsize; fi\n";
  const [cores = 0, memoryBytes = 0] = (await done(shell, script, "the look at its size"))
    .trim()
    .split("\n")
    .map(Number);
  if (!(cores >= 1) || !(memoryBytes > 0))
    fail("failed_precondition", `${shell.place} does not tell its cores and memory: declare it with --offer`);
  return { cores, memoryBytes };
}

export async function startOn(
  shell: MachineShell,
  label: Label,
  offer: Offer,
  wanted: readonly Wanted[],
): Promise<void> {
  const script = wanted.map((one) => {
    const name = `${labelPrefix(label)}${one.instance}`;
    const words = shellWords(joinWords(label, offer, one, shell.flags));
    const own = path(shell.folder, name);
    // The folder's name is an argument, by which the process is found; its log lies beside what the PNode keeps.
    return (
      `mkdir -p ${own} && chmod 700 ${own} && cd ${own} || exit 1\n` +
      `${linkVariable}=${quoted(one.link)} nohup ${quoted(shell.program)} ${words} --dir ${own} >log 2>&1 </dev/null &\n`
    );
  });
  await done(shell, `${script.join("")}exit 0\n`, "a start");
}

const processPattern = /^\s*(\d+)\s+(\S+)\s+(.*)$/;

export async function listOn(shell: MachineShell, label: Label): Promise<Seen[]> {
  const prefix = labelPrefix(label);
  const out = await done(
    shell,
    `ps -A -ww -o pid= -o stat= -o args=\necho --\nls -1 ${path(shell.folder)} 2>/dev/null || true\n`,
    "the list",
  );
  const [processes = "", folders = ""] = out.split(/^--$/m);
  const pids = new Map<string, string[]>();
  for (const line of processes.split("\n")) {
    const [, pid = "", status = "", args = ""] = processPattern.exec(line) ?? [];
    const at = args.indexOf(`/${prefix}`);
    if (at < 0 || status.startsWith("Z")) continue;
    const instance = args.slice(at + 1 + prefix.length).split(/[\s/']/, 1)[0] ?? "";
    if (isInstance(instance)) pids.set(instance, [...(pids.get(instance) ?? []), pid]);
  }
  const known = folders
    .split("\n")
    .map((name) => name.trim())
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length));
  return [...new Set([...pids.keys(), ...known.filter(isInstance)])].map((instance) => {
    const own = pids.get(instance);
    return own
      ? { instance, handle: own.join(","), state: "running" as const, detail: "" }
      : { instance, handle: "", state: "ended" as const, detail: "its process is gone" };
  });
}

/** Processes are told to end, or killed; folders of those that are gone are removed. */
export async function stopOn(shell: MachineShell, label: Label, seen: readonly Seen[], hurry: boolean): Promise<void> {
  const prefix = labelPrefix(label);
  const script = seen
    .filter(({ instance }) => isInstance(instance))
    .map(({ instance, handle }) => {
      const pids = handle.split(",").filter((pid) => /^\d+$/.test(pid));
      if (pids.length === 0) return `rm -rf ${path(shell.folder, `${prefix}${instance}`)}\n`;
      // Whoever has got a number since is not ours: the name is looked for again before anybody is killed.
      const isOurs = `ps -ww -o args= -p "$pid" 2>/dev/null | grep -q -F -e ${quoted(`/${prefix}${instance}`)}`;
      return `for pid in ${pids.join(" ")}; do ${isOurs} && kill -${hurry ? "KILL" : "TERM"} "$pid"; done\n`;
    });
  if (script.length > 0) await done(shell, `${script.join("")}exit 0\n`, "an end");
}

export async function logsOn(shell: MachineShell, label: Label, { instance }: Seen): Promise<string> {
  const own = path(shell.folder, `${labelPrefix(label)}${instance}`);
  return done(shell, `tail -c ${logBytes} ${own}/log 2>/dev/null || true\n`, "the look at a log");
}
