import { describe, expect, it } from 'vitest';
import { UserError } from '../../base/errors.ts';
import { stream } from '../../base/random.ts';
import { randomPasses, tinyOptions } from './test-support-tiny.ts';
import {
  decodeMessage,
  encodeMessage,
  type Message,
  packBatch,
  packState,
  unpackState,
  unpackValues,
  WIRE_VERSION,
} from './wire.ts';

/** Over the wire, and at an odd address, as a part of a larger read would be. */
function sent(message: Message): Message {
  const bytes = Buffer.concat([Buffer.from('x'), ...encodeMessage(message)]);
  return decodeMessage(bytes.subarray(1));
}

describe('the wire form', () => {
  it('carries a batch with its coefficients, and without', () => {
    for (let seed = 0; seed < 10; seed++) {
      for (const { batch, coef, entropyCoef } of randomPasses(stream(seed, 'wire'))) {
        const { trees, length, ids, positions, subtreeEnd, hiddenIndex, targetId } = batch;
        const inTrees = Object.entries({ ids, positions, subtreeEnd });
        const inRows = Object.entries({ hiddenIndex, targetId });
        const coefs = Object.entries({ coef, entropyCoef });
        const tensors = (rows: [string, Int32Array | Float32Array][]) =>
          new Map(
            [...inTrees, ...rows].map(([name, data], i) => [
              name,
              { shape: i < inTrees.length ? [trees, length] : [targetId.length], data },
            ]),
          );
        const values = sent({ kind: 'rowValues', ...packBatch(batch) });
        expect(values).toEqual({ kind: 'rowValues', body: { trees, length }, tensors: tensors(inRows) });
        const gradient = sent({ kind: 'accumulate', ...packBatch(batch, { coef, entropyCoef }) });
        expect(gradient.tensors).toEqual(tensors([...inRows, ...coefs]));
      }
    }
  });

  it('carries a state bit by bit: odd values, order of tensors, reference or none', () => {
    const { spec, start } = tinyOptions();
    const odd = [Number.NaN, Infinity, -0, 1e-45, 3.4028234663852886e38, 1 / 3];
    const [first] = start.adapter.tensors.values();
    first!.data.set(odd);
    start.optimizer.step = 7;
    for (const reference of [null, { spec, tensors: start.adapter.tensors }]) {
      const state = { ...start, reference };
      const back = unpackState(sent({ kind: 'open', ...packState(state) }), spec, state.adapter.tensors);
      expect(back).toEqual(state);
      expect([...back.adapter.tensors.keys()]).toEqual([...state.adapter.tensors.keys()]);
    }
  });

  it('keeps the fields of a message exactly, and its tensors apart from the bytes they came in', () => {
    const learningRate = 0.1 + 0.2;
    const message = { kind: 'update', body: { learningRate, note: '法 "x"\n' }, tensors: new Map() };
    expect(sent(message)).toEqual(message);
    const tensors = new Map([['logprobs', { shape: [2], data: Float32Array.of(1, 2) }]]);
    const bytes = Buffer.concat(encodeMessage({ kind: 'reply', body: {}, tensors }));
    const got = decodeMessage(bytes);
    bytes.fill(0);
    expect(got.tensors.get('logprobs')!.data).toEqual(Float32Array.of(1, 2));
    expect(() => unpackValues(got, 2)).toThrow(/lacks entropies/);
  });

  it('is a safetensors file: header length, JSON header, aligned data', () => {
    const tensors = new Map([['a', { shape: [1, 2], data: Int32Array.of(-1, 258) }]]);
    const bytes = Buffer.concat(encodeMessage({ kind: 'k', body: { x: 1 }, tensors }));
    const length = Number(bytes.readBigUInt64LE());
    expect((8 + length) % 8).toBe(0);
    expect(JSON.parse(bytes.subarray(8, 8 + length).toString())).toEqual({
      __metadata__: { lexpo: '{"x":1,"version":1,"kind":"k"}' },
      a: { dtype: 'I32', shape: [1, 2], data_offsets: [0, 8] },
    });
    expect([...bytes.subarray(8 + length)]).toEqual([255, 255, 255, 255, 2, 1, 0, 0]);
  });

  it('refuses another version, and says what to do', () => {
    const bytes = Buffer.concat(encodeMessage({ kind: 'ping', body: {}, tensors: new Map() }));
    const other = Buffer.from(bytes.toString('latin1').replace('version\\":1', 'version\\":2'), 'latin1');
    expect(WIRE_VERSION).toBe(1);
    expect(() => decodeMessage(other)).toThrow(UserError);
    expect(() => decodeMessage(other)).toThrow(/version 2 .* speaks version 1\n.*same release/);
  });

  it('refuses a message with other rows, other tensors or other fields than were asked for', () => {
    const rows = { shape: [2], data: Float32Array.of(1, 2) };
    const values = { tensors: new Map(Object.entries({ logprobs: rows, entropies: rows })) };
    expect(unpackValues(values, 2).entropies).toBe(rows.data);
    expect(() => unpackValues(values, 3)).toThrow(/logprobs as \[2\], not as \[3\]\n.*same release/);
    const { spec, start } = tinyOptions();
    const { body, tensors } = packState(start);
    const [name, { shape }] = [...start.adapter.tensors][0]!;
    const turned = new Map(start.adapter.tensors).set(name, { shape: shape.toReversed(), data: rows.data });
    expect(() => unpackState({ body, tensors }, spec, turned)).toThrow(/not as \[\d+,\d+\]/);
    expect(() => unpackState({ body: {}, tensors }, spec, start.adapter.tensors)).toThrow(UserError);
  });

  it('refuses what is no message', () => {
    const tensors = new Map([['a', { shape: [2], data: Float32Array.of(1, 2) }]]);
    const bytes = Buffer.concat(encodeMessage({ kind: 'k', body: {}, tensors }));
    for (const cut of [0, 7, 20, bytes.length - 1])
      expect(() => decodeMessage(bytes.subarray(0, cut)), `${cut}`).toThrow(/not a message/);
    const changed = (from: string, to: string): Buffer =>
      Buffer.from(bytes.toString('latin1').replace(from, to), 'latin1');
    expect(() => decodeMessage(changed('"lexpo"', '"other"'))).toThrow(/not a message/);
    expect(() => decodeMessage(changed('"F32"', '"F64"'))).toThrow(/not a message.* a\.dtype: /);
    expect(() => decodeMessage(changed('"lexpo"', '"other"'))).toThrow(UserError);
    expect(() => decodeMessage(changed('[2]', '[3]'))).toThrow(/range of a/);
    expect(() =>
      encodeMessage({
        kind: 'k',
        body: {},
        tensors: new Map([['a', { shape: [3], data: Float32Array.of(1) }]]),
      }),
    ).toThrow(/a has shape/);
  });
});
