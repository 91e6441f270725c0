import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { hidingScript, planHiding } from "./hiding.ts";

const home = realpathSync(mkdtempSync(join(tmpdir(), "dcnr-hiding-")));
after(() => rmSync(home, { recursive: true, force: true }));
const program = join(home, "it's a program");
const own = join(program, "pnode");
mkdirSync(own, { recursive: true });
writeFileSync(join(home, "node"), "");
symlinkSync(program, join(home, "link"));

const given = [
  { path: own, isWritable: true },
  { path: join(home, "link"), isWritable: false },
  { path: join(home, "node"), isWritable: false },
];
const skip = process.platform !== "linux" && "Linux alone has name spaces";

describe("what a process finds of the machine's files", { skip }, () => {
  it("is what it is given, inner ones after those that they lie in, by their true names", () => {
    const plan = planHiding([...given, { path: join(home, "gone"), isWritable: false }], home);
    assert.deepEqual(
      plan?.kept.filter(({ path }) => path.startsWith(home)),
      [
        { path: join(home, "node"), isWritable: false },
        { path: program, isWritable: false },
        { path: own, isWritable: true },
      ],
    );
    assert.ok(plan.links.some(([name, path]) => name === join(home, "link") && path === program));
    assert.ok(plan.kept.every(({ path }) => !`${path}/`.startsWith(`${plan.stage}/`)));
  });

  it("is the system's programs beside that, of which it changes none, and no terminal", () => {
    const { kept = [], asTheyAre = [] } = planHiding([{ path: "/usr/bin", isWritable: true }]) ?? {};
    assert.deepEqual(
      kept.filter(({ path }) => /^\/usr(\/bin)?$/.test(path)),
      [
        { path: "/usr", isWritable: false },
        { path: realpathSync("/usr/bin"), isWritable: true },
      ],
    );
    for (const folder of ["/var", "/opt", "/home", "/run", "/dev", "/"])
      assert.ok(!kept.some(({ path }) => path === folder) && !asTheyAre.includes(folder), folder);
    assert.ok(asTheyAre.includes("/dev/null"));
    assert.ok(asTheyAre.every((path) => !/tty|pts|console|ptmx|shm|input/.test(path)));
  });

  it("is what its libraries are found by, elsewhere too", () => {
    const before = process.env["LD_LIBRARY_PATH"];
    process.env["LD_LIBRARY_PATH"] = join(home, "link");
    try {
      const plan = planHiding([], home) ?? assert.fail("there is no plan");
      assert.ok(plan.kept.some(({ path, isWritable }) => path === program && !isWritable));
      assert.ok(plan.links.some(([name]) => name === join(home, "link")));
    } finally {
      if (before === undefined) delete process.env["LD_LIBRARY_PATH"];
      else process.env["LD_LIBRARY_PATH"] = before;
    }
  });

  const inSpace = ["--user", "--map-root-user", "--mount", "--", "sh", "-c"];
  const skipSpaces =
    spawnSync("unshare", [...inSpace, "mount -t tmpfs none /mnt"]).status !== 0 && "no name spaces here";
  const inside = (words: string, cwd = home) => {
    const plan = planHiding(given, home) ?? assert.fail("there is no plan");
    const all = [...inSpace, hidingScript("mount", join(own, "key.pem"), plan, cwd), "sh", "sh", "-c", words];
    const { stdout, stderr } = spawnSync("unshare", all, { encoding: "utf8" });
    return stdout || stderr;
  };
  writeFileSync(join(own, "key.pem"), "secret");
  writeFileSync(join(home, "letter"), "dear owner");

  it("cannot be changed there, except for what is its own within it", { skip: skipSpaces }, () => {
    const tries = ["node", "it's a program/code.js", "it's a program/pnode/state"].map(
      (name) => `(: >> "${join(home, name)}") 2>/dev/null && echo "${name}"`,
    );
    const system = '(: >> /usr/new) 2>/dev/null && echo "the system"; (: >> /etc/new) 2>/dev/null && echo "settings"';
    assert.equal(
      inside(`${tries.join("; ")}; ${system}; cat "${join(own, "key.pem")}"`),
      "it's a program/pnode/state\n",
    );
    assert.ok(existsSync(join(own, "state")));
  });

  it("is nothing else, wherever it lies, and what it leaves there nobody finds", { skip: skipSpaces }, () => {
    const found = inside(`ls -A / /var /dev "${home}"; cat "${join(home, "letter")}"; : > "${join(home, "left")}"`);
    for (const name of ["opt", "srv", "media", "lib/", "tty", "pts", "ptmx", "letter", "log"])
      assert.ok(!found.split("\n").includes(name), `${name} in\n${found}`);
    assert.ok(found.split("\n").includes("null"));
    assert.ok(!existsSync(join(home, "left")));
  });

  it("is found by other names, too, and from the folder in which it was started", { skip: skipSpaces }, () => {
    assert.equal(inside(`pwd; [ -d "${join(home, "link")}/pnode" ] && echo there`, own), `${own}\nthere\n`);
    assert.equal(inside("pwd", "/gone"), "/gone\n");
  });

  it("is no plan where a whole home is to be kept, or what many have there", () => {
    for (const path of [home, realpathSync(tmpdir()), "/"])
      assert.equal(planHiding([{ path, isWritable: true }], home), undefined, path);
  });

  it("is said to a shell in words that it takes as they are", () => {
    const script = hidingScript("/usr/bin/mount", join(program, "key"), undefined);
    assert.ok(script.includes(`--bind /dev/null '${home}/it'\\''s a program/key'`), script);
  });
});
