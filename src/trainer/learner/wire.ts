/**
 * The learner contract's wire form, version 1: what a learner in another process, in another language, is sent
 * and sends back. A message is a safetensors file (a little-endian u64 with the header's length, a JSON header,
 * then the data) whose metadata `lexpo` is JSON: `version`, `kind`, and the message's own fields. Tensors are
 * I32 or F32. On a stream each message stands behind its length in bytes, a little-endian u64.
 *
 *   batch    trees, length; ids, positions, subtreeEnd [trees, length]; hiddenIndex, targetId [rows];
 *            where gradients are asked for coef, entropyCoef [rows]
 *   values   logprobs, entropies [rows]
 *   state    step, shapes [[PEFT tensor name, [rows, columns]], …], scale;
 *            adapter.<name>, first.<name>, second.<name>, and reference.<name> where there is a reference
 */
import { z } from 'zod';
import { messageOf, UserError } from '../../base/errors.ts';
import { problemsOf } from '../../base/read-json.ts';
import { loraScale } from '../../engine/peft.ts';
import type { LoraSpec, RowValues, TensorMap, TreeBatch } from '../../engine/types.ts';
import type { LearnerState } from './learner.ts';

export const WIRE_VERSION = 1;

export interface WireTensor {
  shape: readonly number[];
  data: Float32Array | Int32Array;
}

export interface Message {
  kind: string;
  /** JSON, without the reserved `version` and `kind`. */
  body: Record<string, unknown>;
  tensors: ReadonlyMap<string, WireTensor>;
}

const size = z.number().int().min(0);
const entrySchema = z.strictObject({
  dtype: z.enum(['I32', 'F32']),
  shape: z.array(size),
  data_offsets: z.tuple([size, size]),
});
const headerSchema = z
  .object({ __metadata__: z.object({ lexpo: z.string() }) })
  .catchall(entrySchema as z.ZodType<unknown>);
const bodySchema = z.looseObject({ version: z.number(), kind: z.string() });

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array | Int32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** The message's bytes, in parts that share the tensors' memory. */
export function encodeMessage({ kind, body, tensors }: Message): Uint8Array[] {
  const lexpo = JSON.stringify({ ...body, version: WIRE_VERSION, kind });
  const rows: [string, unknown][] = [['__metadata__', { lexpo }]];
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (const [name, { shape, data }] of tensors) {
    if (shape.reduce((a, b) => a * b, 1) !== data.length)
      throw new Error(`${name} has shape [${shape}] and ${data.length} values`);
    const dtype = data instanceof Int32Array ? 'I32' : 'F32';
    rows.push([name, { dtype, shape, data_offsets: [offset, offset + data.byteLength] }]);
    offset += data.byteLength;
    parts.push(bytesOf(data));
  }
  const json = Buffer.from(JSON.stringify(Object.fromEntries(rows)));
  const header = Buffer.alloc(Math.ceil((8 + json.length) / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  json.copy(header, 8);
  return [header, ...parts];
}

const SAME_RELEASE = 'use learner and lexpo of the same release, on every machine';

/** What the other side sent is not what this release understands. */
const wrong = (what: string): UserError => new UserError(what, 'learner', SAME_RELEASE);

/** Frames above this are no messages: 256 GiB, more than any state or batch. */
const MAX_FRAME = 2 ** 38;

/** The length that a frame says it has. UserError for one that no message has: then it is no frame at all. */
export function frameLength(prefix: Buffer): number {
  const length = Number(prefix.readBigUInt64LE());
  if (length <= MAX_FRAME) return length;
  throw wrong(`not a message of a learner: a frame of ${length} bytes`);
}

/**
 * The message in `bytes`; its tensors are copies.
 *
 * @throws UserError for another version of the wire form, and for bytes that are no message.
 */
export function decodeMessage(bytes: Uint8Array): Message {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fail = (what: string): never => {
    throw wrong(`not a message of a learner: ${what}`);
  };
  if (bytes.length < 8) fail(`only ${bytes.length} bytes`);
  const start = 8 + Number(view.getBigUint64(0, true));
  if (start > bytes.length) fail('its header is longer than the message');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + 8, start - 8).toString('utf8');
  const header = parsed(headerSchema, text, fail);
  const { __metadata__: metadata, ...entries } = header;
  const { version, kind, ...body } = parsed(bodySchema, metadata.lexpo, fail);
  if (version !== WIRE_VERSION)
    throw wrong(`version ${version} of the learner's wire form; this lexpo speaks version ${WIRE_VERSION}`);
  const tensors = new Map<string, WireTensor>();
  for (const [name, value] of Object.entries(entries)) {
    const { dtype, shape, data_offsets } = entrySchema.parse(value);
    const [begin, end] = data_offsets.map((offset) => start + offset) as [number, number];
    const length = shape.reduce((a, b) => a * b, 1);
    if (end - begin !== 4 * length || end > bytes.length) fail(`the range of ${name} does not fit it`);
    // A copy also puts the values where a typed array may begin.
    const { buffer } = new Uint8Array(bytes.subarray(begin, end));
    tensors.set(name, { shape, data: dtype === 'I32' ? new Int32Array(buffer) : new Float32Array(buffer) });
  }
  return { kind, body, tensors };
}

function parsed<T>(schema: z.ZodType<T>, text: string, fail: (what: string) => never): T {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return fail(messageOf(error));
  }
  const result = schema.safeParse(json);
  return result.success ? result.data : fail(problemsOf(result.error));
}

/** Body and tensors of a batch; with coefficients `[rows]` those of its gradient too. */
export function packBatch(
  batch: TreeBatch,
  coefs?: { coef: Float32Array; entropyCoef: Float32Array },
): Pick<Message, 'body' | 'tensors'> {
  const { trees, length, ids, positions, subtreeEnd, hiddenIndex, targetId } = batch;
  const grid = [trees, length];
  const rows = [targetId.length];
  const tensors = new Map<string, WireTensor>([
    ['ids', { shape: grid, data: ids }],
    ['positions', { shape: grid, data: positions }],
    ['subtreeEnd', { shape: grid, data: subtreeEnd }],
    ['hiddenIndex', { shape: rows, data: hiddenIndex }],
    ['targetId', { shape: rows, data: targetId }],
  ]);
  if (coefs) {
    tensors.set('coef', { shape: rows, data: coefs.coef });
    tensors.set('entropyCoef', { shape: rows, data: coefs.entropyCoef });
  }
  return { body: { trees, length }, tensors };
}

function dataOf<T extends Float32Array | Int32Array>(
  tensors: ReadonlyMap<string, WireTensor>,
  name: string,
  type: new (length: number) => T,
  expected: readonly number[],
): T {
  const { shape, data } = tensors.get(name) ?? {};
  if (!(data instanceof type)) throw wrong(`a message of a learner lacks ${name} as ${type.name}`);
  if (shape!.join() !== expected.join())
    throw wrong(`a message of a learner has ${name} as [${shape}], not as [${expected}]`);
  return data;
}

/** The values of so many rows in a message. UserError where it has others. */
export function unpackValues({ tensors }: Pick<Message, 'tensors'>, rows: number): RowValues {
  return {
    logprobs: dataOf(tensors, 'logprobs', Float32Array, [rows]),
    entropies: dataOf(tensors, 'entropies', Float32Array, [rows]),
  };
}

/** Body and tensors of a learner's state. */
export function packState({
  adapter,
  reference,
  optimizer,
}: LearnerState): Pick<Message, 'body' | 'tensors'> {
  const tensors = new Map<string, WireTensor>();
  for (const [name, tensor] of adapter.tensors) tensors.set(`adapter.${name}`, tensor);
  for (const [name, tensor] of reference?.tensors ?? []) tensors.set(`reference.${name}`, tensor);
  for (const kind of ['first', 'second'] as const)
    for (const [name, data] of optimizer[kind])
      tensors.set(`${kind}.${name}`, { shape: adapter.tensors.get(name)!.shape, data });
  const shapes = [...adapter.tensors].map(([name, { shape }]) => [name, shape]);
  return { body: { step: optimizer.step, shapes, scale: loraScale(adapter.spec) }, tensors };
}

/** A message's own fields. UserError where they are others. */
export function readBody<T>(schema: z.ZodType<T>, body: Message['body']): T {
  const result = schema.safeParse(body);
  if (!result.success) throw wrong(`not a message of a learner: ${problemsOf(result.error)}`);
  return result.data;
}

const stateBody = z.looseObject({ step: size });

/**
 * The learner's state in a message, for an adapter of this spec with tensors like `like`, in their order.
 * UserError where it has others.
 */
export function unpackState(
  { body, tensors }: Pick<Message, 'body' | 'tensors'>,
  spec: LoraSpec,
  like: ReadonlyMap<string, { shape: readonly number[] }>,
): LearnerState {
  const { step } = readBody(stateBody, body);
  const order = [...like.keys()];
  const part = (prefix: string): TensorMap =>
    new Map(
      [...like].map(([name, { shape }]) => [
        name,
        { shape: [...shape], data: dataOf(tensors, `${prefix}.${name}`, Float32Array, shape) },
      ]),
    );
  const flat = (prefix: string): Map<string, Float32Array> =>
    new Map([...part(prefix)].map(([name, { data }]) => [name, data]));
  const hasReference = order.length > 0 && tensors.has(`reference.${order[0]}`);
  return {
    adapter: { spec, tensors: part('adapter') },
    reference: hasReference ? { spec, tensors: part('reference') } : null,
    optimizer: { step, first: flat('first'), second: flat('second') },
  };
}
