// Machines on demand by ssh: a server of our own on this machine, with keys of its own. Runs where OpenSSH is installed.

import { spawn } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { runCommand } from "../../src/system/commands.ts";
import { comeTrainDieAndGo, freePort, pidsOf, withOrchestrator } from "./scenario.ts";

const sshd = "/usr/sbin/sshd";
const programs = [runCommand(sshd, ["-V"]), runCommand("ssh", ["-V"]), runCommand("ssh-keygen", ["-?"])];
const isHere = (await Promise.allSettled(programs)).every(({ status }) => status === "fulfilled");

/** Keys, a server that knows them, and what a provider is told. */
async function server(folder: string) {
  const port = await freePort();
  for (const name of ["host", "client"])
    await runCommand("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(folder, name)]);
  const { out: hostKey } = await runCommand("cat", [join(folder, "host.pub")]);
  await runCommand("cp", [join(folder, "client.pub"), join(folder, "authorized")]);
  await writeFile(join(folder, "known"), `[127.0.0.1]:${port} ${hostKey}`);
  await mkdir("/run/sshd", { recursive: true }).catch(() => {});
  const config = [
    ...[`Port ${port}`, "ListenAddress 127.0.0.1", `HostKey ${folder}/host`, `AuthorizedKeysFile ${folder}/authorized`],
    ...["PidFile none", "PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no", "StrictModes no"],
    ...["PermitRootLogin prohibit-password", `SetEnv PATH=${process.env["PATH"]}`],
  ];
  await writeFile(join(folder, "config"), `${config.join("\n")}\n`);
  const running = spawn(sshd, ["-D", "-e", "-f", join(folder, "config")], { stdio: "ignore" });
  const parameters = {
    ...{ hosts: "127.0.0.1", port: String(port), user: userInfo().username, folder: join(folder, "provided") },
    ...{
      "identity-file": join(folder, "client"),
      "known-hosts": join(folder, "known"),
      program: resolve("bin/dcnr.js"),
    },
  };
  return { parameters, close: () => running.kill("SIGTERM") };
}

const skip = isHere ? false : "OpenSSH is not installed here";

test("PNodes come by ssh, are replaced when they are killed, and are gone at the end", { skip }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "dcnr-ssh-"));
  const { parameters, close } = await server(folder);
  const offers = [{ name: "small", cores: 1, memoryBytes: 1n << 30n, most: 2, bootSeconds: 20 }];
  try {
    await withOrchestrator("ssh", (world) =>
      comeTrainDieAndGo(
        world,
        { name: "far", kind: "ssh", parameters, offers },
        async ({ id }) => {
          for (const pid of await pidsOf(id)) process.kill(pid, "SIGKILL");
        },
        async () => (await pidsOf(`${folder}/provided`)).length,
      ),
    );
  } finally {
    close();
    await rm(folder, { recursive: true, force: true });
  }
});
