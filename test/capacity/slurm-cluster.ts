// A whole Slurm on this machine: munge, a controller and two nodes with GPUs that are files. For root, on loopback alone.

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { runCommand } from "../../src/system/commands.ts";
import { until } from "./scenario.ts";

const run = promisify(execFile);
const programs = ["munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo"];

/** Why it cannot be had here; undefined if it can. */
export async function slurmMissing(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "a Slurm of our own needs root";
  for (const program of programs) {
    const { code } = await runCommand("sh", ["-c", `command -v ${program}`]);
    if (code !== 0) return `${program} is not installed here (Debian: slurm-wlm, munge)`;
  }
  return undefined;
}

export interface SlurmCluster {
  readonly environment: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

function isAlive(pid: number): boolean {
  try {
    return pid > 1 && process.kill(pid, 0);
  } catch {
    return false;
  }
}

function configOf(folder: string, port: number): string[] {
  const host = hostname().split(".")[0] as string;
  const shape = "CPUs=8 RealMemory=8000 Gres=gpu:fake:2 State=UNKNOWN";
  const node = (name: string, own: number) =>
    `NodeName=${name} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${own} ${shape}`;
  return [
    ...[
      "ClusterName=dcnr",
      `SlurmctldHost=${host}(127.0.0.1)`,
      `SlurmctldPort=${port}`,
      "SlurmUser=root",
      "SlurmdUser=root",
    ],
    ...["AuthType=auth/munge", `AuthInfo=socket=${folder}/munge.socket`, "CredType=cred/munge"],
    ...[`StateSaveLocation=${folder}/state`, `SlurmdSpoolDir=${folder}/spool-%n`],
    ...[`SlurmctldPidFile=${folder}/slurmctld.pid`, `SlurmdPidFile=${folder}/slurmd-%n.pid`],
    ...[`SlurmctldLogFile=${folder}/log/slurmctld.log`, `SlurmdLogFile=${folder}/log/slurmd-%n.log`],
    // Eight cores where there may be two, and nobody listens beyond this machine.
    ...["SlurmdParameters=config_overrides", "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"],
    ...["ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SwitchType=switch/none", "MpiDefault=none"],
    ...["SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory", "SchedulerType=sched/backfill"],
    ...["SchedulerParameters=bf_interval=2,sched_min_interval=200000", "PriorityType=priority/basic", "GresTypes=gpu"],
    ...["ReturnToService=2", "KillWait=20", "MinJobAge=10"],
    ...["JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none"],
    ...[node("n1", port + 1), node("n2", port + 2), "PartitionName=lab Nodes=n1,n2 Default=YES MaxTime=1:00:00"],
  ];
}

export async function startSlurm(folder: string, port: number): Promise<SlurmCluster> {
  for (const name of ["state", "log", "gpu", "spool-n1", "spool-n2"]) await mkdir(join(folder, name));
  for (const gpu of [0, 1, 2, 3]) await writeFile(join(folder, "gpu", `fake${gpu}`), "");
  await writeFile(join(folder, "slurm.conf"), `${configOf(folder, port).join("\n")}\n`);
  const gpus = ["n1 Name=gpu Type=fake File=GPU/fake[0-1]", "n2 Name=gpu Type=fake File=GPU/fake[2-3]"];
  await writeFile(
    join(folder, "gres.conf"),
    gpus.map((line) => `NodeName=${line.replace("GPU", `${folder}/gpu`)}\n`).join(""),
  );
  await writeFile(join(folder, "munge.key"), randomBytes(128), { mode: 0o400 });
  const environment = { SLURM_CONF: join(folder, "slurm.conf") };
  const env = { ...process.env, ...environment };
  await run("munged", [
    ...["--force", "-S", `${folder}/munge.socket`, "--key-file", `${folder}/munge.key`],
    ...[
      "--log-file",
      `${folder}/log/munged.log`,
      "--pid-file",
      `${folder}/munged.pid`,
      "--seed-file",
      `${folder}/seed`,
    ],
  ]);
  const daemons = [
    ["slurmctld", "-D", "-c"],
    ["slurmd", "-D", "-N", "n1"],
    ["slurmd", "-D", "-N", "n2"],
  ].map(([program = "", ...args]) => spawn(program, args, { env, stdio: "ignore" }));
  const stop = async () => {
    // Whoever still writes would disturb the end of the folder.
    const ended = daemons.map((daemon) => new Promise((resolve) => daemon.once("exit", resolve)));
    for (const daemon of daemons) daemon.kill("SIGTERM");
    await Promise.all(ended);
    const pid = Number(await readFile(join(folder, "munged.pid"), "utf8").catch(() => "0"));
    if (pid > 1) process.kill(pid, "SIGTERM");
    await until("munge has ended", async () => !isAlive(pid), 20_000);
  };
  const idle = async () => {
    const { stdout } = await run("sinfo", ["--noheader", "--Node", "--format=%T"], { env }).catch(() => ({
      stdout: "",
    }));
    return stdout.split("\n").filter((state) => state === "idle").length === 2;
  };
  await until("both nodes of Slurm are idle", idle, 90_000).catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { environment, stop };
}
