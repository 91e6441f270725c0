// Names by which models are asked: a model's own, or that of one of the adapters that it holds, NAME:ADAPTER.

/** No name of a model contains it. */
export const adapterMark = ":";

/** The model that is meant. */
export function modelNameOf(name: string): string {
  return name.split(adapterMark, 1)[0] as string;
}
