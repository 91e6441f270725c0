// A hundred ways to change a ledger behind its network's back.

import type { SeededChance } from "../../simulation/world/chance.ts";
import type { Block, Transfer } from "../../src/orchestrator/ledger/block.ts";
import { hashOfBlock } from "../../src/orchestrator/ledger/block.ts";

type Change = (blocks: Block[], at: number, chance: SeededChance) => void;

function withTransfer(blocks: Block[], at: number, change: (transfer: Transfer) => Transfer): void {
  const block = blocks[at] as Block;
  blocks[at] = { ...block, transfer: change(block.transfer) };
}

/** As a careful forger would: every later block of the chain is linked anew. */
function relink(blocks: Block[], from: number): void {
  const { chain } = blocks[from] as Block;
  let previous = "";
  let index = 0;
  for (const [at, block] of blocks.entries()) {
    if (block.chain !== chain) continue;
    blocks[at] = { ...block, index, previous };
    previous = hashOfBlock(blocks[at] as Block);
    index += 1;
  }
}

const inflate: Change = (blocks, at) =>
  withTransfer(blocks, at, (transfer) => {
    const [name = "mint/x"] = Object.keys(transfer.legs);
    return { ...transfer, legs: { ...transfer.legs, [name]: (transfer.legs[name] ?? 0) + 1 } };
  });

const divert: Change = (blocks, at) =>
  withTransfer(blocks, at, (transfer) => {
    const legs = Object.entries(transfer.legs).map(([name, amount]): [string, number] =>
      amount > 0 ? [name.replace(/[^/]+$/, "thief"), amount] : [name, amount],
    );
    return { ...transfer, legs: Object.fromEntries([...legs, ["available/thief", 5], ["mint/thief", -5]]) };
  });

const rename: Change = (blocks, at) =>
  withTransfer(blocks, at, (transfer) => ({ ...transfer, ref: `${transfer.ref}x` }));

const remove: Change = (blocks, at) => void blocks.splice(at, 1);

const repeat: Change = (blocks, at) => {
  const block = blocks[at] as Block;
  blocks.splice(at + 1, 0, { ...block, index: block.index + 1, previous: hashOfBlock(block) });
};

const cutOff: Change = (blocks, at) => {
  const { chain } = blocks[at] as Block;
  blocks.splice(
    blocks.findLastIndex((block) => block.chain === chain),
    1,
  );
};

const swap: Change = (blocks, at) => {
  const other = at + 1 < blocks.length ? at + 1 : at - 1;
  const [a, b] = [blocks[at] as Block, blocks[other] as Block];
  blocks[at] = { ...a, transfer: b.transfer };
  blocks[other] = { ...b, transfer: a.transfer };
};

const another: Change = (blocks, at) => {
  const block = blocks[at] as Block;
  withTransfer(blocks, at, (transfer) =>
    transfer.kind === "settle" && transfer.work.length > 0
      ? { ...transfer, work: transfer.work.map((one) => ({ ...one, pnode: `${one.pnode}x` as typeof one.pnode })) }
      : { ...transfer, ref: `${block.transfer.ref}y` },
  );
};

const relinked =
  (change: Change): Change =>
  (blocks, at, chance) => {
    change(blocks, at, chance);
    relink(blocks, Math.min(at, blocks.length - 1));
  };

export const tamperings: readonly Change[] = [
  ...[inflate, divert, rename, remove, repeat, cutOff, swap, another],
  ...[inflate, divert, rename, remove, repeat, another].map(relinked),
];
