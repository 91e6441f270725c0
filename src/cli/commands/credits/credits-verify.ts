// `dcnr credits verify`: judges an exported ledger or statement without asking anybody.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { fail } from "../../../core/errors.ts";
import { isKeyId, verifySignature } from "../../../core/keys.ts";
import { plural } from "../../../core/words/plural.ts";
import { verifyFile } from "../../../orchestrator/ledger/files.ts";
import type { Command } from "../../command.ts";

const problemsShown = 10;

export const command: Command = {
  summary: "Verify an exported ledger or statement offline: every link, every sum, every proof, and the signature.",
  positionals: [{ name: "FILE" }],
  options: {
    network: { type: "string", value: "KEY", summary: "the network whose ledger it must be, by its key" },
  },
  examples: ["dcnr credits verify ledger.jsonl", "dcnr credits verify ada.json --network rwvx4qxcf2qkn5m5…"],
  run: async ({ arguments: [path = ""], flags, out }) => {
    const expected = flags.optionalText("network");
    if (expected !== undefined && !isKeyId(expected))
      fail("invalid_argument", `--network takes a key of 52 letters and digits, not "${expected}"`);
    const input = createReadStream(path);
    const opened = new Promise<never>((_, reject) => input.once("error", reject));
    const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
    const { problems, network, head, blocks, credits } = await Promise.race([
      verifyFile(lines, verifySignature),
      opened.catch((error: Error) => fail("not_found", `cannot read ${path}: ${error.message}`)),
    ]);
    const found = [...problems];
    if (expected !== undefined && network !== expected) found.push(`it is the ledger of ${network ?? "nobody"}`);
    if (flags.is("json")) out.json({ problems: found, network, head: head.number, blocks, accounts: credits.size });
    else if (found.length === 0)
      out.line(
        `${path} holds: ${blocks} blocks under head ${head.number} of ${new Date(head.wallMs).toISOString()}, signed by the network ${network}.`,
      );
    else {
      for (const problem of found.slice(0, problemsShown)) out.line(problem);
      out.line(out.tone("bad", `${path} does not hold: ${plural(found.length, "problem")}.`));
    }
    return found.length === 0 ? 0 : 1;
  },
};
