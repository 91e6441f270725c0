// route and weigh: a mixture of experts. A linear node scores the experts, `route` chooses some for every row and says
// how much each counts, and `weigh` lets an expert's result count as much. Experts compute every row, whether chosen or
// not, since graphs have fixed shapes; what was not chosen counts zero.

import { elementCount } from "../../core/tensor.ts";
import {
  description,
  floatInput,
  lastAxis,
  type NodeType,
  one,
  oneOutput,
  refuse,
  type Site,
  showShape,
} from "./node-type.ts";

export const route: NodeType = {
  type: "route",
  meaning: "Scores of experts to their shares: softmax over the `top_k` largest of the last axis, 0 for the others.",
  keys: { top_k: { kind: "integer", min: 1, max: 1024, required: true, meaning: "experts that are chosen" } },
  inputs: one,
  outputs: oneOutput,
  describe: (site) => {
    const input = floatInput(site);
    const experts = lastAxis(input.shape);
    if (site.config.number("top_k") > experts)
      refuse(
        site,
        `key "top_k" is ${site.config.number("top_k")}, but its input ${showShape(input.shape)} scores ${experts} experts`,
      );
    return description([input], { flops: (8 + 3 * experts) * elementCount(input.shape) });
  },
  build: (site) => {
    const { graph } = site;
    const scores = site.input(0);
    const mask = graph.op("TopMask", [scores], { k: site.config.number("top_k") });
    return [graph.op("Softmax", [graph.op("Add", [scores, mask])], { axis: -1 })];
  },
};

export const weigh: NodeType = {
  type: "weigh",
  meaning: "Input 0 times one column of input 1, the shares of `route`: `[.., n], [.., experts] -> [.., n]`.",
  keys: { index: { kind: "integer", min: 0, max: 1023, required: true, meaning: "which column: the expert's number" } },
  inputs: () => ({ min: 2, max: 2 }),
  outputs: oneOutput,
  describe: (site) => {
    const input = floatInput(site);
    checkShares(site);
    return description([input], { flops: elementCount(input.shape) });
  },
  build: (site) => {
    const { graph } = site;
    const shares = site.input(1);
    const axis = shares.shape.length - 1;
    const index = site.config.number("index");
    const column = graph.op("Slice", [shares], { starts: [index], ends: [index + 1], axes: [axis], steps: [1] });
    return [graph.op("Mul", [site.input(0), column])];
  },
};

function checkShares(site: Site): void {
  const [value, shares] = [floatInput(site), floatInput(site, 1)];
  if (String(value.shape.slice(0, -1)) !== String(shares.shape.slice(0, -1)))
    refuse(site, `input 1 must have the rows of input 0 ${showShape(value.shape)}, found ${showShape(shares.shape)}`);
  const index = site.config.number("index");
  if (index >= lastAxis(shares.shape))
    refuse(
      site,
      `key "index" is ${index}, but input 1 ${showShape(shares.shape)} has ${lastAxis(shares.shape)} columns`,
    );
}
