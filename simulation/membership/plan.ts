// What happens in a world of members, drawn from its seed before it begins.

import type { SeededChance } from "../world/chance.ts";

/** Faults happen for this long. */
export const faultsMs = 150_000;

export function addressOf(name: string): string {
  return `${name}.test:7400`;
}

export interface MembershipViolation {
  readonly kind: "views differ" | "forged" | "stale" | "wrong burial" | "error";
  readonly message: string;
}

export type MemberFault = { readonly atMs: number; readonly forMs: number } & (
  | { readonly kind: "pause"; readonly member: string }
  | { readonly kind: "crash"; readonly member: string; readonly loses: boolean; readonly forGood: boolean }
  | { readonly kind: "split"; readonly side: ReadonlySet<string> }
);

export interface Plan {
  readonly members: readonly string[];
  /** Whom everybody asks first. */
  readonly contact: string;
  readonly loss: number;
  readonly faults: readonly MemberFault[];
  readonly liar: boolean;
  /** Nobody lets a machine in again that was lost with its disk: others have to remember that it was. */
  readonly isLetInOnce: boolean;
}

/** Worlds that lead to one rule, where those drawn blindly rarely do. */
export type MembershipAim = "pauses" | "split without the contact" | "liar";

export function drawPlan(chance: SeededChance, aim?: MembershipAim): Plan {
  const pnodes = Array.from({ length: 3 + Math.floor(chance.uniform() * 6) }, (_, index) => `p${index + 1}`);
  const orchestrators = Array.from({ length: Math.floor(chance.uniform() * 3) }, (_, index) => `o${index + 1}`);
  const members = [...pnodes, ...orchestrators];
  const any = () => members[Math.floor(chance.uniform() * members.length)] as string;
  const contact = orchestrators[0] ?? (pnodes[0] as string);
  const kinds = aim === undefined ? ["pauses", "crashes", "splits", "mixed"] : [aim];
  const kind = kinds[Math.floor(chance.uniform() * kinds.length)] as string;
  const faults: MemberFault[] = [];
  const some = (most: number) => 1 + Math.floor(chance.uniform() * most);
  if (kind === "pauses" || kind === "mixed")
    for (let count = some(4); count > 0; count--) {
      const atMs = chance.between(20_000, faultsMs - 70_000);
      faults.push({ kind: "pause", member: any(), atMs, forMs: chance.between(1_000, 40_000) });
      // One is suspected and answers for itself while another, which suspected it too, sleeps.
      const [suspect, sleeper] = [any(), any()];
      faults.push({ kind: "pause", member: suspect, atMs, forMs: chance.between(7_000, 13_000) });
      if (sleeper !== suspect)
        faults.push({ kind: "pause", member: sleeper, atMs: atMs + chance.between(6_500, 9_000), forMs: 40_000 });
    }
  if (kind === "crashes" || kind === "mixed")
    for (const member of members)
      if (chance.uniform() < 0.4)
        faults.push({
          ...{ kind: "crash", member, atMs: chance.between(10_000, faultsMs / 2), forMs: chance.between(500, 60_000) },
          ...{ loses: chance.uniform() < 0.5, forGood: member !== contact && chance.uniform() < 0.3 },
        });
  if (kind === "splits" || kind === "mixed") faults.push(splitOf(members, chance, chance.between(10_000, 60_000)));
  if (kind === "split without the contact") {
    faults.push({ kind: "crash", member: contact, loses: false, forGood: true, atMs: 20_000, forMs: 1 });
    faults.push(splitOf(members, chance, 60_000));
  }
  return {
    ...{ members, contact, faults },
    loss: kind === "pauses" ? 0 : chance.uniform() < 0.5 ? 0 : 0.05 * chance.uniform(),
    liar: aim === "liar" || (aim === undefined && chance.uniform() < 0.3),
    isLetInOnce: chance.uniform() < 0.5,
  };
}

function splitOf(members: readonly string[], chance: SeededChance, atMs: number): MemberFault {
  const side = new Set(members.filter(() => chance.uniform() < 0.5));
  return { kind: "split", side, atMs, forMs: chance.between(20_000, 80_000) };
}
