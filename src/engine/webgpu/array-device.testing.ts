// A device of plain arrays, for tests: its memory is apart from the caller's as a GPU's is, its numbers are the reference engine's. What
// forgets an upload or a download computes with stale numbers here too.

import { assert } from "../../core/assert.ts";
import { DcnrError } from "../../core/errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { tensorBytes } from "../../core/tensor.ts";
import type { Engine } from "../engine.ts";
import { openReferenceEngine } from "../reference.ts";
import { type Device, type DeviceValue, type Feed, isOnDevice, lostDevice, type Traffic } from "./device.ts";
import { DeviceStation } from "./station.ts";

export interface ArrayDevice extends Device {
  /** From now on every call fails as if the driver had lost the device. */
  lose(): void;
}

export function arrayDevice(): ArrayDevice {
  const engine = openReferenceEngine();
  const traffic: Traffic = { up: 0, down: 0, resident: 0, busyMs: 0 };
  const held = new Map<DeviceValue, Tensor>();
  let isLost = false;
  const check = () => {
    if (isLost) throw new DcnrError("unavailable", `${lostDevice}: it was taken away`);
  };
  const keep = ({ dtype, shape, data }: Tensor): DeviceValue => {
    const value: DeviceValue = {
      dtype,
      shape,
      dispose: () => {
        assert(held.delete(value), "a value is disposed of once");
        traffic.resident -= tensorBytes(dtype, shape);
      },
    };
    held.set(value, { dtype, shape, data: data.slice() });
    traffic.resident += tensorBytes(dtype, shape);
    return value;
  };
  const tensorOf = (feed: Feed): Tensor => {
    if (!isOnDevice(feed)) {
      traffic.up += feed.data.byteLength;
      return feed;
    }
    const tensor = held.get(feed);
    assert(tensor !== undefined, "a fed value was not disposed of");
    return tensor;
  };
  return {
    traffic,
    lose: () => {
      isLost = true;
    },
    async load(graph, stays) {
      check();
      const program = await engine.load(graph);
      return {
        async run(feeds, into) {
          check();
          const given = Object.fromEntries(graph.inputs.map(({ name }) => [name, tensorOf(feeds[name] as Feed)]));
          const results = await program.run(given);
          const values: Record<string, DeviceValue> = {};
          for (const [name, tensor] of Object.entries(results))
            if (stays.has(name)) values[name] = keep(tensor);
            else {
              traffic.down += tensor.data.byteLength;
              (into[name] as Tensor).data.set(tensor.data as never);
            }
          return values;
        },
        release: () => program.release(),
      };
    },
    async upload(tensor) {
      check();
      traffic.up += tensor.data.byteLength;
      return keep(tensor);
    },
    async download(value, into) {
      check();
      traffic.down += into.byteLength;
      into.set(tensorOf(value).data as never);
    },
  };
}

/** The reference engine behind such a device. */
export function arrayDeviceEngine(device: Device): Engine {
  const engine: Engine = {
    ...openReferenceEngine(),
    kind: "webgpu",
    openStation: () => new DeviceStation(engine, device),
  };
  return engine;
}
