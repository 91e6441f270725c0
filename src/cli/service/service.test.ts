import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { joinWords } from "../commands/running/service-install.ts";
import { serviceKindOf, serviceKinds, serviceManager } from "./managers.ts";
import { checkProgram, installService, uninstallService } from "./service.ts";

const home = mkdtempSync(join(tmpdir(), "dcnr-service-"));
after(() => rmSync(home, { recursive: true, force: true }));

const service = { words: ["/opt/a b/node", "/opt/dcnr.js", "join", "lab:7700", "--name", '50% "$me"'], memoryBytes: 0 };
const manager = (kind: (typeof serviceKinds)[number]) => serviceManager(kind, { home, name: "ann", id: 501 });

/** A system whose commands that contain `refused` fail. */
function system(refused?: string) {
  const ran: string[] = [];
  const run = (words: readonly string[]) => {
    ran.push(words.join(" "));
    return refused !== undefined && words.includes(refused) ? "Failed to connect to bus" : undefined;
  };
  return { ran, run };
}

describe("a service", () => {
  for (const kind of serviceKinds)
    it(`of ${kind} is started from its file, and leaves nothing when it is taken away`, () => {
      const { ran, run } = system();
      const { file } = manager(kind);
      installService(manager(kind), service, run);
      assert.ok(existsSync(file));
      assert.ok(ran.length > 0);
      assert.equal(uninstallService(manager(kind), run), true);
      assert.ok(!existsSync(file));
      assert.equal(uninstallService(manager(kind), run), false, "a second time there is none");
    });

  it("that cannot be started is not there, and what the system said is told", () => {
    const { run } = system("enable");
    assert.throws(() => installService(manager("systemd"), service, run), /enable --now dcnr says: Failed to connect/);
    assert.ok(!existsSync(manager("systemd").file));
  });

  it("that may not stay while its owner is away runs all the same, and says how it could", () => {
    assert.match(
      installService(manager("systemd"), service, system("enable-linger").run).advice ?? "",
      /sudo loginctl/,
    );
    assert.equal(installService(manager("systemd"), service, system().run).advice, undefined);
  });

  it("replaces the one before, which ends first", () => {
    const { ran, run } = system();
    installService(manager("systemd"), { ...service, words: ["/new"] }, run);
    assert.match(ran[0] ?? "", /disable --now dcnr/);
    assert.match(readFileSync(manager("systemd").file, "utf8"), /^ExecStart=\/new$/m);
  });

  it("is given its words as they are, whatever they contain", () => {
    const unit = manager("systemd").definition(service);
    assert.match(unit, /^ExecStart="\/opt\/a b\/node" \/opt\/dcnr\.js join lab:7700 --name "50%% \\"\$\$me\\""$/m);
    assert.match(manager("launchd").definition({ ...service, words: ["a<b&c"] }), /<string>a&lt;b&amp;c<\/string>/);
    assert.match(manager("windows").definition(service), /"50%% ""\$me"""\r\n$/);
  });

  it("starts again after accidents alone, not when its owner took the machine back", () => {
    assert.match(manager("systemd").definition(service), /^Restart=on-failure$/m);
    assert.match(manager("launchd").definition(service), /<key>SuccessfulExit<\/key><false\/>/);
  });

  it("bounds memory where some is lent, above what is lent", () => {
    const unit = manager("systemd").definition({ ...service, memoryBytes: 2 ** 33 });
    const bound = Number(/^MemoryMax=(\d+)$/m.exec(unit)?.[1]);
    assert.ok(bound > 2 ** 33 && bound < 2 ** 34, unit);
    assert.doesNotMatch(manager("systemd").definition(service), /MemoryMax/);
  });

  it("joins by the words that were typed, without those of the service itself", () => {
    const typed = "service install lab:7700 --cpus 4 --print --manager launchd --manager=windows --json".split(" ");
    assert.deepEqual(joinWords(typed), ["lab:7700", "--cpus", "4"]);
  });

  it("is not made of a copy that npx throws away, nor for a system that nobody knows", () => {
    assert.throws(() => checkProgram("/home/a/.npm/_npx/1f/node_modules/dcnr/bin/dcnr.js"), /npm install --global/);
    checkProgram("/usr/lib/node_modules/dcnr/bin/dcnr.js");
    assert.throws(() => serviceKindOf("plan9"), /plan9/);
  });
});
