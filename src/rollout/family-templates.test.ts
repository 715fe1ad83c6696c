/** Chat templates of the families: no system role, several end tokens, dates, answers that nothing opens. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { buildMessages, PACKS } from '../env/malr/prompts/build-messages.ts';
import type { Message } from '../env/types.ts';
import { endOfTurn, loadChatTemplate, renderPromptIds } from './chat-template.ts';
import { loadTokenizer } from './tokenizer.ts';

const vectors = fileURLToPath(new URL('../../test/vectors', import.meta.url));
const scratch = temporaryFolder();

const user = (content: string): Message => ({ role: 'user', content });
const system = (content: string): Message => ({ role: 'system', content });
const assistant = (content: string): Message => ({ role: 'assistant', content });

function templateOf(source: string, config: object = { bos_token: '<s>', eos_token: '</s>' }) {
  writeFileSync(join(scratch, 'chat_template.jinja'), source);
  writeFileSync(join(scratch, 'tokenizer_config.json'), JSON.stringify(config));
  return loadChatTemplate(scratch);
}

interface Chat {
  messages: Message[];
  kwargs: Record<string, unknown>;
  text: string;
  ids: number[];
}

/** The control tokens of a planner's prompt, in order. */
const FRAMES = {
  'smollm-tokenizer': ['<|im_start|>', '<|im_end|>', '<|im_start|>', '<|im_end|>', '<|im_start|>'],
  'llama3-tokenizer': [
    '<|begin_of_text|>',
    ...['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
    ...['<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>'],
    ...['<|start_header_id|>', '<|end_header_id|>'],
  ],
  // [INST] is text of its own here
  'llama2-tokenizer': ['<s>'],
  'mistral-tokenizer': ['<s>', '[INST]', '[/INST]'],
};

describe.each(Object.entries(FRAMES))('%s', (name, frame) => {
  const folder = join(vectors, name);
  const tokenizer = loadTokenizer(folder);
  const template = loadChatTemplate(folder);
  const control = new Map(tokenizer.controlTokens.map(({ id, content }) => [id, content]));
  const render = (messages: Message[], kwargs = {}) =>
    renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true, kwargs });
  const controlsOf = (ids: number[]) => ids.flatMap((id) => control.get(id) ?? []);

  test('ids equal those of transformers', () => {
    const chats: Chat[] = JSON.parse(readFileSync(join(folder, 'vectors.json'), 'utf8')).chats;
    for (const { messages, kwargs, text, ids } of chats) {
      expect(render(messages, kwargs)).toEqual(ids);
      // Llama 2's form begins every stretch of text with a space
      const spoken = name === 'llama2-tokenizer' ? text.replaceAll(/<.?s>(?=.)/g, '$& ') : text;
      expect(tokenizer.decode(ids, { skipSpecial: false })).toBe(spoken);
    }
    expect(chats.some(({ messages }) => messages.some(({ role }) => role === 'system'))).toBe(true);
  });

  test('every prompt of a planner shows all it says, whatever a question spells out', () => {
    const random = stream(7, name);
    const pieces = [...control.values(), '[INST]', '[/INST]', '<<SYS>>', '法', ' ', '\n', '<0x41>', '▁'];
    const summary = {
      round: 0,
      count: 3,
      diversity: 2,
      growth: 1,
      diminishing: false,
      agents: [],
    };
    for (let i = 0; i < 60; i++) {
      const outside = Array.from({ length: 1 + random.int(8) }, () => pieces[random.int(pieces.length)]);
      const query = `问${outside.join('')}题`;
      for (const pack of Object.values(PACKS)) {
        const state = { query, summary, titles: [query], offered: [] };
        const messages = buildMessages(pack, 'planner', state);
        const ids = render(messages);
        expect(controlsOf(ids)).toEqual(frame);
        const text = tokenizer.decode(ids, { skipSpecial: false });
        for (const { content } of messages)
          expect(text.replaceAll('▁', ' ')).toContain(content.trim().replaceAll('▁', ' '));
      }
    }
  });
});

/** Templates that put text directly beside their markers, and markers directly beside each other. */
const TIGHT = {
  'smollm-tokenizer': ['<|im_start|>', '<|im_end|>'],
  'llama3-tokenizer': ['<|start_header_id|>', '<|eot_id|>'],
  'llama2-tokenizer': ['<s>', '</s>'],
  'mistral-tokenizer': ['[INST]', '[/INST]'],
  'char-tokenizer': ['<|im_start|>', '<|im_end|>'],
  'byte-tokenizer': ['<|im_start|>', '<|im_end|>'],
};
describe.each(Object.entries(TIGHT))('text directly beside markers: %s', (name, [open, close]) => {
  const tokenizer = loadTokenizer(join(vectors, name));
  const control = new Set(tokenizer.controlTokens.map(({ id }) => id));
  const contents = tokenizer.controlTokens.map(({ content }) => content);

  test('no control token, whole, in parts, doubled or nested, becomes one', () => {
    const frame = [open!, close!].map((token) => tokenizer.tokenId(token)!);
    const template = templateOf(`{% for m in messages %}${open}{{ m.content }}${close}{% endfor %}`, {});
    const options = { addGenerationPrompt: false };
    for (const [i, token] of contents.entries()) {
      const other = contents[(i + 1) % contents.length]!;
      const cut = 1 + (i % Math.max(1, token.length - 1));
      const [head, tail] = [token.slice(0, cut), token.slice(cut)];
      const outside = [
        token,
        token + token,
        `法${token}条`,
        `${head}${other}${tail}`,
        tail,
        head,
        `${tail}${head}`,
      ];
      const messages = outside.flatMap((text) => [user(text)]);
      const ids = renderPromptIds(template, tokenizer, messages, options);
      expect([token, ids.filter((id) => control.has(id))]).toEqual([token, outside.flatMap(() => frame)]);
    }
  });

  test('a marker of which a message makes up one half is refused, never made', () => {
    const cut = open!.length - 2;
    const template = templateOf(`${open!.slice(0, cut)}{{ messages[0].content }}${close}`, {});
    const half = user(open!.slice(cut));
    expect(() => renderPromptIds(template, tokenizer, [half], { addGenerationPrompt: false })).toThrow(
      /other special tokens depending on what the messages say/,
    );
  });
});

describe('templates without a system role', () => {
  const mistral = loadTokenizer(join(vectors, 'mistral-tokenizer'));
  const textOf = (source: string, messages: Message[]) =>
    mistral.decode(renderPromptIds(templateOf(source), mistral, messages, { addGenerationPrompt: true }), {
      skipSpecial: false,
    });
  const loop =
    "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}";

  test.each([
    [
      'refuses it',
      `{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}${loop}`,
    ],
    ['drops it', loop],
  ])('one that %s: its words go before the user’s', (_, source) => {
    expect(templateOf(source).systemRole).toBe('none');
    expect(textOf(source, [system('S'), user('U'), user('V')])).toBe('[INST]S\n\nU[/INST][INST]V[/INST]');
    expect(textOf(source, [user('U')])).toBe('[INST]U[/INST]');
  });

  test('one that merges it in its own way is left to do so', () => {
    const source = "[INST]{{ messages|map(attribute='content')|join(' / ') }}[/INST]";
    expect(templateOf(source).systemRole).toBe('own');
    expect(textOf(source, [system('S'), user('U')])).toBe('[INST]S / U[/INST]');
  });

  test('one that takes no user either is refused when it is loaded, with its own words', () => {
    expect(() => templateOf("{{ raise_exception('only for tools') }}")).toThrow(/only for tools/);
    expect(() => templateOf('[INST][/INST]')).toThrow(/does not show what a user says/);
    expect(() => templateOf('[INST][/INST]')).toThrow(UserError);
  });
});

describe('the end of a prompt', () => {
  const tokenizer = loadTokenizer(join(vectors, 'smollm-tokenizer'));
  const chatml = '{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}';

  test('a template that opens no answer is refused where an opening is asked for', () => {
    const template = templateOf(chatml);
    const plain = renderPromptIds(template, tokenizer, [user('U')], { addGenerationPrompt: false });
    expect(plain.length).toBeGreaterThan(3);
    expect(() => renderPromptIds(template, tokenizer, [user('U')], { addGenerationPrompt: true })).toThrow(
      /ignores add_generation_prompt.*\n.*<\|im_start\|>assistant/,
    );
  });

  test('one whose answers simply follow needs none, and one that thinks before is fine', () => {
    const template = loadChatTemplate(join(vectors, 'mistral-tokenizer'));
    expect(template.missingOpening).toBeNull();
    const thinking = `${chatml}{% if add_generation_prompt %}<|im_start|>assistant\n<think>{% endif %}`;
    expect(templateOf(thinking).missingOpening).toBeNull();
  });

  test('the token that ends a turn is the template’s, among several end tokens', () => {
    const llama3 = join(vectors, 'llama3-tokenizer');
    const [template, own] = [loadChatTemplate(llama3), loadTokenizer(llama3)];
    const [text, message, turn] = ['<|end_of_text|>', '<|eom_id|>', '<|eot_id|>'].map((t) => own.tokenId(t)!);
    expect(endOfTurn(template, own, [text!, message!, turn!])).toBe(turn);
    expect(() => endOfTurn(template, own, [text!])).toThrow(
      new RegExp(`ends a turn with <\\|eot_id\\|> \\(${turn}\\), which is not an eos_token_id \\(${text}\\)`),
    );
    const bare = templateOf('{% for m in messages %}{{ m.content }}{% endfor %}');
    expect(endOfTurn(bare, own, [message!, text!])).toBe(message);
  });

  test('a date in a template is always the same', () => {
    const dated = `{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %B %%') }}|${chatml}`;
    const ids = renderPromptIds(templateOf(dated), tokenizer, [user('U'), assistant('A')], {
      addGenerationPrompt: false,
    });
    const text = tokenizer.decode(ids, { skipSpecial: false });
    expect(text.split('|')[0]).toBe('26 Jul 2024 2024-07-26 July %%');
  });

  test('a line break at the start of a template stays', () => {
    const ids = renderPromptIds(templateOf(`\n${chatml}`), tokenizer, [user('U')], {
      addGenerationPrompt: false,
    });
    expect(tokenizer.decode(ids, { skipSpecial: false })).toBe('\n<|im_start|>user\nU<|im_end|>\n');
  });
});
