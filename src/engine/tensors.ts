import type { Adapter, TensorMap } from './types.ts';

const copyTensors = (tensors: TensorMap): TensorMap =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data: data.slice() }]));

export const copyAdapter = ({ spec, tensors }: Adapter): Adapter => ({ spec, tensors: copyTensors(tensors) });

/** Adds `more` to `sum` in place, tensor by tensor of the same names and sizes. */
export function addTensors(sum: TensorMap, more: TensorMap): void {
  for (const [name, { data }] of more) {
    const target = sum.get(name)!.data;
    for (let i = 0; i < data.length; i++) target[i]! += data[i]!;
  }
}
