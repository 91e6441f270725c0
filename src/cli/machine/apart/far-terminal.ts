// The terminal of a process that has none: the one of the process that started it (front-process.ts), which passes text and keys on. What passes
// beside them goes by a wire of their own: how large the terminal is, and whether keys are wanted as they are pressed.

import { Socket } from "node:net";

export interface TerminalSize {
  readonly columns: number;
  readonly rows: number;
}

/** Of three streams, which are terminals. */
export interface TerminalFacts {
  readonly input: boolean;
  readonly output?: TerminalSize;
  readonly errors?: TerminalSize;
}

export const terminalVariable = "DCNR_TERMINAL";
/** The descriptor of the wire, behind those that every process has. */
const wireDescriptor = 3;
/** What goes to the front: one byte for each wish, so that nothing it hears needs reading. */
export const keysWanted = 1;
export const keysUnwanted = 0;

/** Once, before anything is shown: standard streams look as if they were the terminal that they lead to. */
export function adoptTerminal(environment: NodeJS.ProcessEnv): void {
  const told = environment[terminalVariable];
  delete environment[terminalVariable];
  if (told === undefined) return;
  const wire = new Socket({ fd: wireDescriptor });
  wire.on("error", () => wire.destroy());
  // Whoever has ended the front meant both, and nobody is there for what would still be said.
  wire.once("close", () => process.kill(process.pid, "SIGKILL"));
  wire.unref();
  let rest = "";
  wire.setEncoding("utf8").on("data", (piece: string) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) look(JSON.parse(line) as TerminalFacts);
  });
  const { input, output, errors } = look(JSON.parse(told) as TerminalFacts);
  // By one pipe, since what goes by two comes in any order.
  if (output && errors) process.stderr.write = process.stdout.write.bind(process.stdout);
  if (!input) return;
  const setRawMode = (isRaw: boolean) => {
    wire.write(Uint8Array.of(isRaw ? keysWanted : keysUnwanted));
    return process.stdin;
  };
  Object.assign(process.stdin, { isTTY: true, setRawMode });
}

function look(facts: TerminalFacts): TerminalFacts {
  for (const [stream, size] of [
    [process.stdout, facts.output],
    [process.stderr, facts.errors],
  ] as const)
    if (size) {
      Object.assign(stream, size, { isTTY: true });
      stream.emit("resize");
    }
  return facts;
}
