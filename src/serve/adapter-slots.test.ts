import { join } from 'node:path';
import { expect, it } from 'vitest';
import { fakeSession, openModel, writeFakeAdapter } from '../../test/serve/fake-engine.ts';
import { temporaryFolder } from '../base/test-support.ts';
import type { LoraSpec } from '../engine/types.ts';
import { createAdapterSlots } from './adapter-slots.ts';
import type { LoadOutcome } from './protocol.ts';

const folder = temporaryFolder();
const adapter = (bias: number, r: number) => writeFakeAdapter(join(folder, `${bias}-${r}`), bias, r);

async function setUp(faults: { session?: boolean; prefill?: boolean } = {}) {
  const { readAdapter } = await openModel();
  const open: string[] = [];
  const freed: number[] = [];
  const session = async (lora: LoraSpec | null) => {
    const name = lora ? `r${lora.r}` : 'base';
    if (lora && faults.session) throw new Error('no memory for the graph');
    open.push(name);
    const prefill = async () => {
      throw new Error('wrong shape');
    };
    return {
      ...fakeSession(),
      ...(lora && faults.prefill ? { prefill } : {}),
      release: async () => void open.splice(open.indexOf(name), 1),
    };
  };
  const slots = await createAdapterSlots({ session, readAdapter }, 64, (uid) => freed.push(uid));
  return { slots, open, freed };
}

function uidOf(outcome: LoadOutcome): number {
  if (outcome.kind !== 'ok') throw new Error(outcome.message);
  return outcome.adapter;
}

it('one compiled graph a shape: opened with the first adapter, released with the last', async () => {
  const { slots, open, freed } = await setUp();
  const [a, b, c] = [
    uidOf(await slots.load('a', adapter(0.1, 4))),
    uidOf(await slots.load('b', adapter(0.2, 4))),
    uidOf(await slots.load('c', adapter(0.3, 8))),
  ];
  expect(open).toEqual(['base', 'r4', 'r8']);
  slots.retire(a);
  await Promise.resolve();
  expect(open).toEqual(['base', 'r4', 'r8']);
  slots.retire(b);
  await new Promise(setImmediate);
  expect(open).toEqual(['base', 'r8']);
  expect(freed).toEqual([a, b]);
  expect(slots.count()).toBe(1);
  expect(slots.get(c)?.name).toBe('c');
});

it('an adapter in use is freed with its last sequence', async () => {
  const { slots, freed } = await setUp();
  const uid = uidOf(await slots.load('a', adapter(0.1, 4)));
  const slot = slots.get(uid)!;
  slot.uses = 2;
  slots.retire(uid);
  slots.release(slot);
  expect([slots.get(uid), freed]).toEqual([slot, []]);
  slots.release(slot);
  expect([slots.get(uid), freed]).toEqual([undefined, [uid]]);
});

it('the base model is never let go', async () => {
  const { slots } = await setUp();
  slots.retire(0);
  expect(slots.get(0)?.retired).toBe(false);
});

it('the same files have the same fingerprint, other weights another', async () => {
  const { slots } = await setUp();
  const prints = [];
  for (const bias of [0.1, 0.1, 0.2]) prints.push(await slots.load('x', adapter(bias, 4)));
  const [a, b, c] = prints.map((outcome) => (outcome.kind === 'ok' ? outcome.fingerprint : ''));
  expect(a).toBe(b);
  expect(c).not.toBe(a);
});

it.each([
  [{ session: true }, /no memory/],
  [{ prefill: true }, /wrong shape/],
])(
  'what the engine says against an adapter is the answer, and nothing stays: %o',
  async (faults, message) => {
    const { slots, open } = await setUp(faults);
    const outcome = await slots.load('a', adapter(0.1, 4));
    expect(outcome).toMatchObject({ kind: 'refused', message: expect.stringMatching(message) });
    expect(open).toEqual(['base']);
    expect(slots.count()).toBe(0);
  },
);
