// Einsum of ONNX files: pairs of operands become one batched product of matrices, single ones sums and turns of axes.

import { elementCount } from "../../core/tensor.ts";
import type { Value } from "../operators/operator.ts";
import type { Site, Translation, Translations } from "./site.ts";

interface Operand {
  readonly value: Value;
  /** A letter for each axis. */
  readonly labels: string;
}

interface Equation {
  readonly terms: readonly string[];
  readonly result: string;
}

function equationOf(site: Site): Equation {
  const text = site.text("equation", "").replaceAll(/\s/g, "");
  const [left = "", right, ...rest] = text.split("->");
  const terms = left.split(",");
  const letters = /^[A-Za-z]*$/;
  if (rest.length > 0 || ![...terms, right ?? ""].every((term) => letters.test(term)))
    return site.refuse(`the equation "${text}" is not supported: letters, commas and one arrow are`);
  for (const term of [...terms, right ?? ""])
    if (new Set(term).size !== term.length) site.refuse(`a letter twice in "${term}" is not supported`);
  if (terms.length !== site.inputs.length) site.refuse(`the equation "${text}" is for ${terms.length} inputs`);
  const once = [...new Set(left.replaceAll(",", ""))].filter((letter) => left.split(letter).length === 2);
  return { terms, result: right ?? once.sort().join("") };
}

function summed(site: Site, { value, labels }: Operand, keep: (label: string) => boolean): Operand {
  const axes = [...labels].flatMap((label, axis) => (keep(label) ? [] : [axis]));
  if (axes.length === 0) return { value, labels };
  return { value: site.reduce("Sum", value, axes, 0), labels: [...labels].filter(keep).join("") };
}

function turned(site: Site, { value, labels }: Operand, to: string): Value {
  const perm = [...to].map((label) => labels.indexOf(label));
  return perm.every((axis, i) => axis === i) ? value : site.transpose(value, perm);
}

/** Labels of both that are wanted later are the batch, those that are not are summed by the product. */
function multiplied(site: Site, a: Operand, b: Operand, later: ReadonlySet<string>): Operand {
  const [left, right] = [
    summed(site, a, (label) => later.has(label) || b.labels.includes(label)),
    summed(site, b, (label) => later.has(label) || a.labels.includes(label)),
  ];
  const shared = [...left.labels].filter((label) => right.labels.includes(label));
  const batch = shared.filter((label) => later.has(label)).join("");
  const inner = shared.filter((label) => !later.has(label)).join("");
  const only = (mine: Operand, other: Operand) =>
    [...mine.labels].filter((label) => !other.labels.includes(label)).join("");
  const [rows, columns] = [only(left, right), only(right, left)];
  const sizes = new Map<string, number>();
  for (const { labels, value } of [left, right])
    for (const [i, label] of [...labels].entries()) sizes.set(label, value.shape[i] as number);
  const shape = (labels: string) => [...labels].map((label) => sizes.get(label) as number);
  const count = (labels: string) => elementCount(shape(labels));
  const first = site.reshape(turned(site, left, batch + rows + inner), [count(batch), count(rows), count(inner)]);
  const second = site.reshape(turned(site, right, batch + inner + columns), [
    count(batch),
    count(inner),
    count(columns),
  ]);
  const product = site.op("MatMul", [first, second]);
  return { value: site.reshape(product, shape(batch + rows + columns)), labels: batch + rows + columns };
}

const einsum: Translation = (site) => {
  const { terms, result } = equationOf(site);
  const operands = terms.map((labels, i): Operand => {
    const value = site.input(i);
    if (value.shape.length !== labels.length)
      site.refuse(`"${labels}" does not name the ${value.shape.length} axes of input ${i}`);
    return { value, labels };
  });
  let all = operands[0] as Operand;
  for (const [i, operand] of operands.slice(1).entries())
    all = multiplied(site, all, operand, new Set([...result, ...terms.slice(i + 2).join("")]));
  const kept = summed(site, all, (label) => result.includes(label));
  if ([...result].some((label) => !kept.labels.includes(label)))
    site.refuse(`"${result}" names an axis that no input has`);
  return turned(site, kept, result);
};

export const einsums: Translations = { Einsum: einsum };
