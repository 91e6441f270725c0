// Writes an ONNX file of one node for tests, with any operator and any attributes: what other exporters would write.

import { bytesOf, type Tensor } from "../../core/tensor.ts";
import type { Attribute } from "../model.ts";
import { onnxTypeOf } from "../operators/elements/cast.ts";
import { ProtoWriter } from "../protobuf-write.ts";

export interface NodeFile {
  readonly op: string;
  readonly domain?: string;
  readonly opset?: number;
  /** In order; undefined leaves one out. */
  readonly inputs: readonly ({ readonly tensor: Tensor; readonly constant: boolean } | undefined)[];
  readonly attributes?: Readonly<
    Record<string, Attribute | { readonly float: number } | { readonly floats: readonly number[] }>
  >;
  readonly outputs: number;
}

export function nodeFile({ op, domain = "", opset = 18, inputs, attributes = {}, outputs }: NodeFile): Uint8Array {
  const file = new ProtoWriter();
  file.varint(1, 10);
  file.message(7, (graph) => {
    graph.message(1, (node) => {
      for (const [i, input] of inputs.entries()) node.text(1, input ? `x${i}` : "");
      for (let i = 0; i < outputs; i++) node.text(2, `y${i}`);
      node.text(4, op);
      for (const [name, value] of Object.entries(attributes))
        node.message(5, (message) => writeAttribute(message, name, value));
      if (domain !== "") node.text(7, domain);
    });
    graph.text(2, "node");
    for (const [i, input] of inputs.entries()) {
      if (input?.constant) graph.message(5, (message) => writeTensor(message, `x${i}`, input.tensor));
      else if (input) graph.message(11, (message) => writeValue(message, `x${i}`, input.tensor));
    }
    for (let i = 0; i < outputs; i++) graph.message(12, (message) => message.text(1, `y${i}`));
  });
  for (const [name, version] of [
    ["", opset],
    ["com.microsoft", 1],
    ["ai.onnx.ml", 1],
  ] as const)
    file.message(8, (message) => {
      message.text(1, name);
      message.varint(2, version);
    });
  return file.bytes();
}

function writeAttribute(writer: ProtoWriter, name: string, value: NonNullable<NodeFile["attributes"]>[string]): void {
  writer.text(1, name);
  if (typeof value === "string") {
    writer.text(4, value);
    writer.varint(20, 3);
  } else if (typeof value === "number") {
    writer.varint(3, value);
    writer.varint(20, 2);
  } else if ("float" in value) {
    writer.float(2, value.float);
    writer.varint(20, 1);
  } else if ("floats" in value) {
    for (const each of value.floats) writer.float(7, each);
    writer.varint(20, 6);
  } else if (Array.isArray(value)) {
    const isTexts = typeof value[0] === "string";
    for (const each of value) isTexts ? writer.text(9, each) : writer.varint(8, each);
    writer.varint(20, isTexts ? 8 : 7);
  } else {
    writer.message(5, (message) => writeTensor(message, name, value as Tensor));
    writer.varint(20, 4);
  }
}

function writeTensor(writer: ProtoWriter, name: string, tensor: Tensor): void {
  for (const size of tensor.shape) writer.varint(1, size);
  writer.varint(2, onnxTypeOf(tensor.dtype));
  writer.text(8, name);
  writer.data(9, bytesOf(tensor));
}

function writeValue(writer: ProtoWriter, name: string, { dtype, shape }: Tensor): void {
  writer.text(1, name);
  writer.message(2, (type) =>
    type.message(1, (tensor) => {
      tensor.varint(1, onnxTypeOf(dtype));
      tensor.message(2, (message) => {
        for (const size of shape) message.message(1, (dimension) => dimension.varint(1, size));
      });
    }),
  );
}
