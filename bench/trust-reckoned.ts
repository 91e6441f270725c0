// What checks add to a step of T1 on two PNodes, alone: hashes of the messages that stay on their machine (others have one anyway; tied weights and their
// gradients, which two VNodes of one machine pass to each other, have none), signatures under those that leave it and their verification, lists and statements. Its CPU time stands beside that of T1's own step in the same run, so that it says
// something on a busy machine, where whole sessions scatter by more than what is to be found.

import { base64Of } from "../src/core/bytes.ts";
import { hashOfContent, sha256 } from "../src/core/hash.ts";
import type { SessionId } from "../src/core/ids.ts";
import { wireBytes } from "../src/core/numbers/wire-types.ts";
import { compileText } from "../src/network/compile.ts";
import { messageShape, type Plan, type PlanEdge } from "../src/network/plan.ts";
import { equationOf, listsOf } from "../src/pnode/stating.ts";
import { newIdentity, signingOf, verifyBy } from "../src/system/keys.ts";
import { deliveryContent } from "../src/trust/delivery.ts";
import { isSignedBy, signed } from "../src/trust/statement.ts";
import type { Proof } from "../src/vnode/effects.ts";
import { keyOf, type MessageName, wholeStep } from "../src/vnode/names.ts";
import { roleOf } from "../src/vnode/role.ts";
import type { Schedule } from "../src/vnode/schedule.ts";
import { Transcript } from "../src/vnode/transcript.ts";
import { trained } from "./lab.ts";
import { median, Side } from "./side.ts";

const session = "t1-000000000000" as SessionId;
const life = "0123456789abcdef01234567";

export interface Reckoned {
  /** Of one step: those that leave their machine. */
  readonly signed: number;
  readonly hashedBytes: number;
  readonly cpuMs: number;
  readonly t1CpuMs: number;
}

/** One interval of `steps` steps of T1, with as many microbatches of one sample. */
export async function reckoned(microbatches: number, steps: number, turns: number): Promise<Reckoned> {
  const t1 = await Side.start(process.execPath, [`${import.meta.dirname}/compute-side.ts`, "t1", "native"]);
  try {
    await t1.run(2);
    const plan = compileText(trained.t1.definition());
    const contents = new Map(plan.edges.map((edge) => [edge.id, contentOf(edge)]));
    const own: number[] = [];
    const steps4: number[] = [];
    let counted = { signed: 0, hashedBytes: 0 };
    for (let turn = 0; turn < turns; turn++) {
      const before = process.cpuUsage();
      counted = await statedInterval(plan, contents, microbatches, steps);
      const { user, system } = process.cpuUsage(before);
      own.push((user + system) / 1_000 / steps);
      // It trains on batches of four samples.
      steps4.push((await t1.run(1)).cpuMs);
    }
    return { ...counted, cpuMs: median(own), t1CpuMs: (median(steps4) * microbatches) / 4 };
  } finally {
    await t1.stop();
  }
}

type WireContent = Parameters<typeof hashOfContent>[0];

function contentOf(edge: PlanEdge): WireContent {
  const shape = messageShape(edge, trained.t1.samples);
  return { dtype: edge.wire, shape, bytes: new Uint8Array(wireBytes(edge.wire, shape)).fill(1) };
}

async function statedInterval(
  plan: Plan,
  contents: ReadonlyMap<string, WireContent>,
  microbatches: number,
  steps: number,
) {
  // Two machines share the pipeline in its middle; weights that two VNodes share stay on one of them.
  const places = new Map(plan.vnodes.map(({ id }, index) => [id, index < plan.vnodes.length / 2]));
  const crosses = ({ kind, from, to }: PlanEdge) => kind !== "tie" && places.get(from) !== places.get(to);
  const signing = signingOf(newIdentity());
  const publicKey = base64Of(signing.publicKey);
  // A transcript asks no more of it.
  const schedule = { steps: 1_000_000, checkpointEvery: steps } as Schedule;
  const transcripts = new Map(plan.vnodes.map(({ id }) => [id, new Transcript(roleOf(plan, id), schedule, 0)]));
  let [signatures, hashedBytes] = [0, 0];
  // VNodes that share weights are together, and state nothing of what passes between them.
  const ties = plan.edges.filter(({ kind }) => kind === "tie");
  for (const transcript of transcripts.values()) transcript.silence(ties.map(({ id }) => id));
  for (let step = 0; step < steps; step++)
    for (const edge of plan.edges)
      for (const direction of edge.gradient ? (["forward", "backward"] as const) : (["forward"] as const)) {
        const isTie = edge.kind === "tie";
        const content = contents.get(edge.id) as WireContent;
        for (let microbatch = 0; microbatch < (isTie ? 1 : microbatches); microbatch++) {
          const name: MessageName = { step, microbatch: isTie ? wholeStep : microbatch, edge: edge.id, direction };
          const [from, to] = direction === "forward" ? [edge.from, edge.to] : [edge.to, edge.from];
          let hash: string = sha256(keyOf(name));
          let proof: Proof | undefined;
          if (crosses(edge)) {
            const claim = deliveryContent({ session, vnode: from, life, key: keyOf(name), hash });
            const signature = await signing.sign(claim);
            if (!(await signing.verify(signing.id, signing.publicKey, claim, signature))) throw new Error("not signed");
            proof = { life, publicKey, signature: base64Of(signature) };
            signatures += 1;
          } else if (!isTie) {
            hash = hashOfContent(content);
            hashedBytes += content.bytes.byteLength;
          }
          transcripts.get(from)?.sent(name, hash);
          transcripts.get(to)?.received(name, hash, signing.id, proof);
        }
      }
  for (const [vnode, transcript] of transcripts) {
    for (let step = 1; step <= steps; step++) transcript.published(step, sha256(`${vnode} ${step}`), { loss: 1 });
    const passage = transcript.take(steps);
    const whose = { session, vnode };
    const { inputs, outputs } = listsOf(whose, passage);
    const ends = { inputs, outputs, after: sha256(vnode), afterBytes: 1, life: { name: life, before: "" } };
    const statement = await signed(equationOf(whose, passage, ends), signing);
    if (!isSignedBy(statement, signing.id, verifyBy)) throw new Error("the statement is not signed");
  }
  return { signed: signatures / steps, hashedBytes: hashedBytes / steps };
}
