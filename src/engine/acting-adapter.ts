/** An adapter that acts, where no training has made one: a fresh one has B = 0 and changes nothing. */
import { stream } from '../base/random.ts';
import type { DecoderConfig } from './model-config.ts';
import { initAdapter } from './peft.ts';
import type { Adapter, LoraSpec } from './types.ts';

/** As `initAdapter` by the stream (seed, name), and B from N(0, std²): the larger `std`, the farther from the base. */
export function actingAdapter(
  config: DecoderConfig,
  spec: LoraSpec,
  std: number,
  seed: number,
  name: string,
): Adapter {
  const adapter = initAdapter(config, spec, stream(seed, name));
  const random = stream(seed, name, 'B');
  for (const [tensor, { data }] of adapter.tensors)
    if (tensor.endsWith('.lora_B.weight'))
      for (let i = 0; i < data.length; i++) data[i] = std * random.normal();
  return adapter;
}
