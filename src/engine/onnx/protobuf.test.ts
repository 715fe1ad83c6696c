import { expect, test } from 'vitest';
import { bytes, float, int, message } from './protobuf.ts';

// examples of the protobuf encoding guide, and values worked out by hand
test.each([
  ['varint', int(1, 150), '089601'],
  ['negative number: ten bytes', int(1, -2), '08feffffffffffffffff01'],
  ['more than 32 bits', int(1, 2 ** 40), '08808080808020'],
  ['string', bytes(2, 'testing'), '120774657374696e67'],
  ['field number above 15', bytes(20, ''), 'a20100'],
  ['embedded message', bytes(3, int(1, 150)), '1a03089601'],
  ['float', float(2, 1.5), '150000c03f'],
  ['concatenation', message(int(1, 1), [int(2, 2), int(2, 3)]), '080110021003'],
])('%s', (_, got, want) => {
  expect(Buffer.from(got).toString('hex')).toBe(want);
});
