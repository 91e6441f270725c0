// What members, people and neighbours of a local network tell each other, with good samples of each: links, routes, jobs,
// questions by name, and everything that is signed. Every signature counts as good here: a member signs whatever it likes, and
// what was spoiled must get past the first thing that is asked of it.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { readJobs } from "../../src/cli/flags/job-files.ts";
import { assert } from "../../src/core/assert.ts";
import { sha256 } from "../../src/core/hash.ts";
import type { KeyId, PNodeId, SessionId, VNodeId } from "../../src/core/ids.ts";
import { keyIdOf } from "../../src/core/keys.ts";
import { type Charter, readCharter, signCharter } from "../../src/crew/charter.ts";
import { parseKept } from "../../src/membership/kept.ts";
import type { Facts } from "../../src/membership/member.ts";
import { NetworkKey } from "../../src/membership/network-key.ts";
import { judge, permit, seal } from "../../src/membership/records.ts";
import { Chain } from "../../src/orchestrator/ledger/chain.ts";
import { statementFile, verifyFile, wholeFile } from "../../src/orchestrator/ledger/files.ts";
import { rootOfEnds, signHead, sortedEnds } from "../../src/orchestrator/ledger/heads.ts";
import { nextSettlement } from "../../src/orchestrator/ledger/settle.ts";
import { readTrail } from "../../src/pnode/autonomy/trail.ts";
import { KeptMembersSchema, SignedRecordSchema } from "../../src/protocol/gen/dcnr/v1/gossip_pb.ts";
import { SignedCharterSchema } from "../../src/protocol/gen/dcnr/v1/session_peers_pb.ts";
import { StatementSchema } from "../../src/protocol/gen/dcnr/v1/trust_pb.ts";
import { parseInviteLink } from "../../src/protocol/identity/invite-link.ts";
import { parseNetwork } from "../../src/protocol/routes/reach.ts";
import { formatRelayed, parseRoute } from "../../src/protocol/routes/routes.ts";
import { newIdentity } from "../../src/system/keys.ts";
import { dnsTypes, formatDns, parseDns } from "../../src/system/wires/dns-message.ts";
import { readInputs, readOutputMessages, writeInputs, writeOutputs } from "../../src/trust/lists.ts";
import { isSignedBy, signed, statementFromWire, statementToWire } from "../../src/trust/statement.ts";
import type { Parser } from "./parsers.ts";

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString("utf8");
const bytes = (...texts: readonly string[]): Uint8Array[] => texts.map((one) => Buffer.from(one));

const [network, machine] = [newIdentity(), newIdentity()];
const good = () => true;
const checks = { verify: good, idOf: keyIdOf };

/** Bytes of a message of the contract: what cannot be read as one, the wire refuses before any code of ours. */
function ofMessage<T>(parse: (bytes: Uint8Array) => T, judged: (message: T) => unknown): Parser["parse"] {
  return (spoiled) => {
    let message: T;
    try {
      message = parse(spoiled);
    } catch {
      return undefined;
    }
    return judged(message);
  };
}

const facts: Facts = {
  ...{ name: "oak", routes: ["192.0.2.7:7400"], roles: ["pnode"], numerics: ["portable-3"], cores: 4 },
  ...{ memoryBytes: 2 ** 33, gflops: 20, load: 0.5, region: "home" },
};
const self = { id: machine.id as string, incarnation: "1", identity: machine };
const member = seal(self, network.id, facts, 3, { permit: permit(network, machine.id, 4_000_000_000) });

const charter: Charter = {
  ...{ session: "s" as SessionId, revision: 3n, issuedWallMs: 1, expiresWallMs: 2, numericsClass: "portable-3" },
  crew: new Map([[machine.id as string, { routes: "192.0.2.7:7400", hosts: true }]]) as Charter["crew"],
  vnodes: [
    {
      vnode: "a" as VNodeId,
      tenure: { vnode: "a" as VNodeId, epoch: 1, count: 0, owners: [{ pnode: machine.id, incarnation: "1" }] },
      state: sha256("state"),
    },
  ],
  ...{ line: 4, turn: 0, keepers: 2 },
};

const interval = { session: "s", vnode: "a", from: 0, to: 2 };
const hashes = ["one", "two"].map((one) => sha256(one));
const [one = sha256(""), two = sha256("")] = hashes;
const inputs = writeInputs({
  ...interval,
  messages: [{ key: "1/0/f/a>b", hash: one, sender: machine.id, life: "l", signature: "c2ln" }],
  keys: { [machine.id]: "a2V5" },
});
const outputs = writeOutputs({
  ...interval,
  messages: [["1/0/b/a>b", two]],
  steps: [[1, one]],
  measures: [[1, { loss: 0.5 }]],
  evaluations: [],
});
const equation = {
  ...interval,
  ...{ life: "l", before: one, after: two, afterBytes: 24, inputs: one, inputsBytes: 9, outputs: two, outputsBytes: 9 },
  edges: { "f/a>b": one },
  validation: { step: 1, loss: 0.25 },
};
const statement = toBinary(
  StatementSchema,
  create(StatementSchema, statementToWire(await signed(equation, machine)) as never),
);

const ledger = (() => {
  const chain = new Chain("s");
  const blocks = [];
  const vnode = "a" as VNodeId;
  const done = { vnode, from: 0, to: 20, pnode: "oak" as PNodeId, role: "worker" as const, flops: 3_000_000 };
  const final = { final: 20, work: [done], vestingSteps: 40, ended: true };
  for (let next = nextSettlement(chain, final); next; next = nextSettlement(chain, final)) {
    const block = { chain: chain.name, index: chain.size, previous: chain.last, transfer: next };
    chain.take(block);
    blocks.push(block);
  }
  const root = rootOfEnds(sortedEnds([chain]));
  const head = signHead({ number: 1, previous: "", root, chains: 1, wallMs: 1 }, network);
  return bytes(
    [...wholeFile(head, blocks)].join("\n"),
    statementFile(head, new Map([["s", blocks]]), () => true),
  );
})();

const job = `jobs:
  - {kind: train, name: first, queue: lab, time-limit: 2h, deadline: 2030-01-31T12:00:00Z, requirements: {gpus: 1, memory: 2GiB}, train: {network: t1, steps: 20}}
  - {kind: evaluate, name: second, needs: [first], evaluate: {source: first, samples: 9}}
`;

const dns = [
  { id: 7, isAnswer: false, questions: [{ name: "_dcnr._tcp.local", type: dnsTypes.PTR }], records: [] },
  {
    ...{ id: 7, isAnswer: true, questions: [] },
    records: [
      { name: "_dcnr._tcp.local", type: dnsTypes.PTR, ttlSeconds: 9, target: "oak._dcnr._tcp.local" },
      { name: "oak._dcnr._tcp.local", type: dnsTypes.SRV, ttlSeconds: 9, target: "oak.local", port: 7400 },
      { name: "oak._dcnr._tcp.local", type: dnsTypes.TXT, ttlSeconds: 9, texts: [`key=${network.id}`] },
    ],
  },
].map(formatDns);

export function openToldParsers(): Parser[] {
  const known = NetworkKey.of(network.id, network, checks, () => 0);
  assert(known !== undefined, "the network's key is its own");
  const judging = { ...checks, network: known };
  return [
    {
      name: "invite",
      samples: bytes(`dcnr://192.0.2.7:7700,[2001:db8::1]:7700/${network.id}?invite=abc&name=the%20lab`),
      parse: (spoiled) => parseInviteLink(text(spoiled)),
    },
    {
      name: "route",
      samples: bytes(
        "192.0.2.7:7400",
        formatRelayed({ target: machine.id as string as PNodeId, address: "h:1", relay: network.id, tensors: false }),
      ),
      parse: (spoiled) => parseRoute(text(spoiled)),
    },
    { name: "reach", samples: bytes("192.168.0.0/16", "fd12::/48"), parse: (spoiled) => parseNetwork(text(spoiled)) },
    { name: "jobs", samples: bytes(job), parse: (spoiled) => readJobs(text(spoiled), "jobs.yaml", "key") },
    { name: "mDNS", samples: dns, parse: parseDns },
    {
      name: "member's record",
      samples: [toBinary(SignedRecordSchema, member.signed)],
      parse: ofMessage(
        (spoiled) => fromBinary(SignedRecordSchema, spoiled),
        (record) => judge(record, judging),
      ),
    },
    {
      name: "kept members",
      samples: [toBinary(KeptMembersSchema, create(KeptMembersSchema, { sequence: 3, members: [member.signed] }))],
      parse: parseKept,
    },
    {
      name: "charter",
      samples: [toBinary(SignedCharterSchema, create(SignedCharterSchema, signCharter(charter, network) as never))],
      parse: ofMessage(
        (spoiled) => fromBinary(SignedCharterSchema, spoiled),
        ({ charter: content }) => readCharter({ ...signCharter(charter, network), charter: content }, network.id, good),
      ),
    },
    { name: "trail", samples: [Buffer.alloc(96)], parse: (spoiled) => readTrail(spoiled, 9) },
    { name: "list of inputs", samples: [inputs.content], parse: (spoiled) => readInputs(spoiled, interval) },
    { name: "list of outputs", samples: [outputs.content], parse: (spoiled) => readOutputMessages(spoiled, interval) },
    {
      name: "statement",
      samples: [statement],
      parse: ofMessage(
        (spoiled) => fromBinary(StatementSchema, spoiled),
        (wire) => isSignedBy(statementFromWire(wire, "s", "a"), machine.id as KeyId, good),
      ),
    },
    { name: "ledger", samples: ledger, parse: (spoiled) => verifyFile(text(spoiled).split("\n"), good) },
  ];
}
