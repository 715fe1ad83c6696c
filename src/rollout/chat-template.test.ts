import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import type { Message } from '../env/types.ts';
import { loadChatTemplate, renderPromptIds } from './chat-template.ts';
import { loadTokenizer } from './tokenizer.ts';

const vectors = fileURLToPath(new URL('../../test/vectors', import.meta.url));
const scratch = temporaryFolder();

interface Chat {
  messages: Message[];
  kwargs: Record<string, unknown>;
  text: string;
  ids: number[];
}

/** The template with this source, loaded from a folder of its own. */
function templateOf(source: string) {
  writeFileSync(join(scratch, 'chat_template.jinja'), source);
  return loadChatTemplate(scratch);
}

const user = (content: string): Message => ({ role: 'user', content });

describe.each(['char-tokenizer', 'byte-tokenizer'])('%s', (name) => {
  const tokenizer = loadTokenizer(join(vectors, name));
  const template = loadChatTemplate(join(vectors, name));
  const id = (token: string) => tokenizer.tokenId(token)!;

  test('ids equal transformers, ordinary messages', () => {
    const chats: Chat[] = JSON.parse(readFileSync(join(vectors, name, 'vectors.json'), 'utf8')).chats;
    for (const { messages, kwargs, text, ids } of chats) {
      const ours = renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true, kwargs });
      expect(tokenizer.decode(ours, { skipSpecial: false })).toBe(text);
      expect(ours).toEqual(ids);
    }
    expect(new Set(chats.map((chat) => chat.text)).size).toBe(chats.length);
  });

  test('ids of random ordinary messages equal those of the whole rendered prompt', () => {
    const random = stream(4, name);
    const pieces = [
      '法',
      '条。',
      '\n',
      '\n\n',
      ' ',
      '  ',
      "it's",
      '12',
      '😀',
      '<',
      '|',
      '>',
      '{"action":"',
      '"}',
      '民法典',
    ];
    for (let i = 0; i < 300; i++) {
      const content = Array.from({ length: random.int(8) }, () => pieces[random.int(pieces.length)]).join('');
      const whole = `<|im_start|>system\n${content}<|im_end|>\n<|im_start|>user\n${content}<|im_end|>\n`;
      const messages: Message[] = [{ role: 'system', content }, user(content)];
      const ids = renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: false });
      expect([content, ids]).toEqual([content, tokenizer.encodeMarkup(whole)]);
    }
  });

  test('control tokens spelled out in a message stay text', () => {
    const random = stream(5, name);
    const contents = tokenizer.controlTokens.map((token) => token.content);
    const control = new Set(tokenizer.controlTokens.map((token) => token.id));
    const frame = [
      id('<|im_start|>'),
      id('<|im_end|>'),
      id('<|im_start|>'),
      id('<|im_end|>'),
      id('<|im_start|>'),
    ];
    const pieces = [
      ...contents,
      ...contents.map((c) => c.slice(0, 4)),
      ...contents.map((c) => c.slice(4)),
      '法',
      '\uf8ff',
    ];
    for (let i = 0; i < 300; i++) {
      const content = Array.from({ length: 1 + random.int(6) }, () => pieces[random.int(pieces.length)]).join(
        '',
      );
      const messages: Message[] = [{ role: 'system', content }, user(content)];
      const ids = renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true });
      expect([content, ids.filter((id) => control.has(id))]).toEqual([content, frame]);
      const text = `<|im_start|>system\n${content}<|im_end|>\n<|im_start|>user\n${content}<|im_end|>\n<|im_start|>assistant\n`;
      expect(tokenizer.decode(ids, { skipSpecial: false })).toBe(text);
    }
  });

  test('an assistant message keeps its thinking tags, but no special token', () => {
    const messages: Message[] = [{ role: 'assistant', content: '<think>\n<|im_end|></think>' }];
    const ids = renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: false });
    const control = new Set(tokenizer.controlTokens.map((token) => token.id));
    expect(ids.filter((id) => control.has(id))).toEqual(
      ['<|im_start|>', '<think>', '</think>', '<|im_end|>'].map(id),
    );
  });
});

describe('templates', () => {
  const tokenizer = loadTokenizer(join(vectors, 'char-tokenizer'));
  const options = { addGenerationPrompt: false };
  const textOf = (source: string, messages: Message[]) =>
    tokenizer.decode(renderPromptIds(templateOf(source), tokenizer, messages, options), {
      skipSpecial: false,
    });

  test('what a template does with contents happens, without being steered by tags in them', () => {
    const source =
      "{% for m in messages %}<|im_start|>{{ m.content.split('</think>')[-1]|trim }}<|im_end|>{% endfor %}";
    expect(textOf(source, [user('  a </think> b ')])).toBe('<|im_start|>a </think> b<|im_end|>');
    expect(textOf(source, [{ role: 'assistant', content: 'a </think> b ' }])).toBe('<|im_start|>b<|im_end|>');
  });

  test('a template whose special tokens depend on contents is refused', () => {
    const source =
      "{% for m in messages %}{{ m.content }}{% if 'x' in m.content %}<|im_end|>{% endif %}{% endfor %}";
    expect(() => textOf(source, [user('法')])).toThrow(/other special tokens depending/);
  });

  test('variables and errors of a template', () => {
    writeFileSync(
      join(scratch, 'tokenizer_config.json'),
      JSON.stringify({ eos_token: { content: '<|im_end|>' } }),
    );
    expect(textOf('{{ messages[0].content }}{{ eos_token }}{{ bos_token }}', [user('a')])).toBe(
      'a<|im_end|>',
    );
    expect(() => textOf("{{ raise_exception('no system, please') }}", [])).toThrow(/no system, please/);
    expect(() => templateOf('{% for %}')).toThrow(/does not parse/);
  });

  test('keyword arguments given with the model are those of every rendering', () => {
    const source =
      "{{ messages[0].content }}{% if add_generation_prompt %}{{ 'A' if enable_thinking is defined and not enable_thinking else 'B' }}{{ effort }}{% endif %}";
    const asked = (kwargs: object, more = {}) => {
      templateOf(source);
      const ids = renderPromptIds(loadChatTemplate(scratch, { ...kwargs }), tokenizer, [user('a')], {
        addGenerationPrompt: true,
        ...more,
      });
      return tokenizer.decode(ids, { skipSpecial: false });
    };
    expect(asked({})).toBe('aB');
    expect(asked({ enable_thinking: false, effort: 3 })).toBe('aA3');
    expect(asked({ enable_thinking: false }, { kwargs: { enable_thinking: true } })).toBe('aB');
    expect(() => asked({ enable_thinkin: false })).toThrow(/never reads enable_thinkin\n/);
    expect(() => asked({ 'a.*': 1 })).toThrow(/never reads a\.\*/);
  });

  test('where a template is looked for', () => {
    rmSync(join(scratch, 'chat_template.jinja'));
    const config = (chat_template: unknown) => {
      writeFileSync(join(scratch, 'tokenizer_config.json'), JSON.stringify({ chat_template }));
      return loadChatTemplate(scratch).source;
    };
    const named = (name: string) => `{{ messages[0].content }}${name}`;
    expect(config(named('one'))).toBe(named('one'));
    expect(
      config([
        { name: 'rag', template: named('two') },
        { name: 'default', template: named('three') },
      ]),
    ).toBe(named('three'));
    expect(() => config(undefined)).toThrow(/no chat template/);
    expect(() => config([])).toThrow(/no chat template/);
    expect(templateOf(named('four')).source).toBe(named('four'));
  });
});
