// PNodes as jobs of a Slurm cluster, by its own commands: what is started together is one array, GPUs are asked for by gres,
// and a job is known by its name. Each PNode runs once: Slurm must not requeue it, since whoever wants another one asks.

import { fail } from "../core/errors.ts";
import { joinWords, labelPrefix, linkVariable, quoted, shellWords } from "./join-command.ts";
import {
  batchOf,
  findings,
  isInstance,
  type Offer,
  type Provider,
  type ProviderSettings,
  type ProviderTools,
  type Seen,
  type Wanted,
} from "./provider.ts";

/** A queue may be long; what the first ones took is learned. */
const bootSeconds = 120;
const mebibyte = 2 ** 20;
/** Before the end of its time a PNode is told to hand over. */
const signalSeconds = 60;

const states: Readonly<Record<string, Seen["state"]>> = {
  PENDING: "waiting",
  CONFIGURING: "waiting",
  REQUEUED: "waiting",
  RUNNING: "running",
  COMPLETING: "running",
  SUSPENDED: "running",
  STOPPED: "running",
};

export function openSlurm(settings: ProviderSettings, tools: ProviderTools): Provider {
  const slurm = async (program: string, args: readonly string[], input?: string): Promise<string> => {
    const { code, out, err } = await tools.command(program, args, input === undefined ? {} : { input });
    if (code !== 0)
      fail("unavailable", `${program} failed: ${(err || out).trim().split("\n").at(-1) || `code ${code}`}`);
    return out;
  };
  const partition = settings.parameters["partition"] ?? "";
  const inPartition = partition === "" ? [] : [`--partition=${partition}`];
  const prefix = labelPrefix(settings);
  const offers = () => (settings.offers.length > 0 ? Promise.resolve(settings.offers) : discovered(slurm, inPartition));

  return {
    test: () =>
      findings(
        async () => `${(await slurm("sinfo", ["--version"])).trim()} is here`,
        async () => {
          const nodes = (await slurm("sinfo", ["--noheader", ...inPartition, "--format=%P|%D|%T"])).trim();
          if (nodes === "") fail("not_found", `there is no partition ${partition}: sinfo lists them`);
          return `the cluster answers: ${nodes.split("\n").map(nodesText).join(", ")}`;
        },
        async () => {
          await slurm("squeue", ["--noheader", "--me", "--format=%i"]);
          return "this user may look at the queue";
        },
        async () => {
          const [offer] = await offers();
          if (!offer) fail("not_found", "no node of the cluster could take a PNode: declare one with --offer");
          const script = batchScript(settings, offer, []);
          await slurm(
            "sbatch",
            ["--test-only", ...jobOptions(settings, offer, 1, `${prefix}test`), ...inPartition],
            script,
          );
          return `a job of offer ${offer.name} would be taken`;
        },
      ),
    offers,
    start: async (offer, wanted) => {
      const name = `${prefix}${batchOf(wanted[0]?.instance ?? "")}`;
      const options = [...jobOptions(settings, offer, wanted.length, name), ...inPartition];
      await slurm("sbatch", ["--parsable", ...options], batchScript(settings, offer, wanted));
    },
    list: async () => {
      const out = await slurm("squeue", ["--noheader", "--array", "--me", "--states=all", "--format=%i|%j|%T|%r|%N"]);
      return out.split("\n").flatMap((line) => seenIn(line, prefix));
    },
    stop: async (seen, hurry = false) => {
      const handles = seen.filter(({ state, handle }) => state !== "ended" && /^\d+_\d+$/.test(handle));
      if (handles.length === 0) return;
      const { code, err } = await tools.command("scancel", [
        ...(hurry ? ["--signal=KILL", "--full"] : []),
        ...handles.map(({ handle }) => handle),
      ]);
      // One that ended meanwhile is what was wanted.
      if (code !== 0 && !/invalid job id/i.test(err)) fail("unavailable", `scancel failed: ${err.trim()}`);
    },
    logs: async ({ handle }) => {
      const path = `${logFolder(settings)}/dcnr-${handle}.log`;
      return (await tools.readFile(path).catch(() => "")).slice(-4_000);
    },
  };
}

function nodesText(line: string): string {
  const [name = "", count = "", state = ""] = line.split("|");
  return `${count} node(s) ${state} in ${name.replace("*", "")}`;
}

function seenIn(line: string, prefix: string): Seen[] {
  const [id = "", name = "", state = "", reason = "", node = ""] = line.trim().split("|");
  const index = /^\d+_(\d+)$/.exec(id)?.[1];
  if (!name.startsWith(prefix) || index === undefined) return [];
  const instance = `${name.slice(prefix.length)}-${index}`;
  if (!isInstance(instance)) return [];
  const known = states[state] ?? "ended";
  const waits = known === "waiting" && reason !== "None" ? reason : "";
  const detail = known === "ended" ? `Slurm says ${state.toLowerCase().replaceAll("_", " ")}` : waits || node;
  return [{ instance, handle: id, state: known, detail }];
}

function jobOptions({ parameters }: ProviderSettings, offer: Offer, count: number, name: string): string[] {
  const gpus = offer.gpuType === "" ? `gpu:${offer.gpus}` : `gpu:${offer.gpuType}:${offer.gpus}`;
  return [
    `--job-name=${name}`,
    `--array=0-${count - 1}`,
    ...["--nodes=1", "--ntasks=1", `--cpus-per-task=${offer.cores}`],
    // What the process needs beside what it lends.
    `--mem=${Math.ceil(offer.memoryBytes / mebibyte) + 512}M`,
    ...(offer.gpus > 0 ? [`--gres=${gpus}`] : []),
    ...["--no-requeue", `--signal=B:TERM@${signalSeconds}`, "--export=NONE"],
    `--output=${logFolder({ parameters })}/dcnr-%A_%a.log`,
    ...(parameters["time"] ? [`--time=${parameters["time"]}`] : []),
    ...(parameters["account"] ? [`--account=${parameters["account"]}`] : []),
    ...(parameters["qos"] ? [`--qos=${parameters["qos"]}`] : []),
  ];
}

function logFolder({ parameters }: Pick<ProviderSettings, "parameters">): string {
  return parameters["folder"] ?? "/tmp";
}

/** Links stand in the script, which Slurm shows to its user and administrators only. */
function batchScript(settings: ProviderSettings, offer: Offer, wanted: readonly Wanted[]): string {
  const program = quoted(settings.parameters["program"] ?? "dcnr");
  const cases = wanted.map((one, index) => {
    const words = shellWords(joinWords(settings, offer, one));
    return `${index}) export ${linkVariable}=${quoted(one.link)}; set -- ${words};;`;
  });
  return [
    "#!/bin/sh",
    'case "$SLURM_ARRAY_TASK_ID" in',
    ...cases,
    "*) exit 1;;",
    "esac",
    `own="\${TMPDIR:-/tmp}/dcnr-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"`,
    'mkdir -p "$own" && chmod 700 "$own" || exit 1',
    `${program} "$@" --dir "$own" &`,
    // The shell alone is told before its time is over; a PNode that Slurm tells as well hands over all the same.
    "pid=$!",
    "trap 'kill -TERM $pid 2>/dev/null' TERM",
    'wait "$pid"; code=$?',
    'while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done',
    'rm -rf "$own"',
    'exit "$code"',
    "",
  ].join("\n");
}

/** Nodes of one size are one offer, as large as a whole node. */
async function discovered(
  slurm: (program: string, args: readonly string[]) => Promise<string>,
  inPartition: readonly string[],
): Promise<Offer[]> {
  const out = await slurm("sinfo", ["--noheader", "--Node", ...inPartition, "--format=%N|%c|%m|%G|%T"]);
  const nodes = new Map<string, { readonly shape: string[]; readonly names: Set<string> }>();
  for (const line of out.trim().split("\n")) {
    const [name = "", cores = "", memory = "", gres = "", state = ""] = line.split("|");
    if (name === "" || /down|drain|fail|unk/i.test(state)) continue;
    // Which sockets a GPU hangs on is no difference.
    const shape = [cores, memory, gres.replace(/\([^)]*\)/g, "")];
    const known = nodes.get(shape.join("|")) ?? { shape, names: new Set<string>() };
    nodes.set(shape.join("|"), known);
    known.names.add(name);
  }
  return Array.from(nodes.values(), ({ shape: [cores = "1", memory = "0", gres = ""], names }) => {
    const [, type = "", count = "0"] = /gpu:(?:([A-Za-z][\w-]*):)?(\d+)/.exec(gres) ?? [];
    const gpus = Number(count);
    return {
      name: `${cores}-cores${gpus > 0 ? `-${gpus}-gpus` : ""}`,
      cores: Number.parseInt(cores, 10),
      memoryBytes: Math.max(0, Number.parseInt(memory, 10) - 512) * mebibyte,
      ...{ gpus, gpuMemoryBytes: 0, gpuType: type },
      ...{ pricePerHour: 0, region: "", spot: false, most: names.size, bootSeconds },
    };
  });
}
