/**
 * Judgments of the invented legal order: two for each concept that questions are asked about, told in the concept's
 * own phrases, by courts of every level, with sentences of every kind. In it breaches of these laws are punished, so
 * that the search of precedents has authority and severity to go by.
 */
import { type Random, stream } from '../../src/base/random.ts';
import { type Placed, placeConcepts } from './questions.ts';
import type { Law } from './table.ts';

export interface PrecedentRow {
  id: string;
  court: string | null;
  fact: string;
  judgment: string;
  articles: string[];
}

const SEED = 21;
const CASES = 2;
const PLACES = ['青溪县', '白石市', '云岭区', '河湾县', '东桥市', '南塘区'];
const COURTS: readonly ((place: string) => string)[] = [
  (place) => `${place}人民法院`,
  (place) => `${place}人民法院`,
  () => '示范市中级人民法院',
  () => '示范省高级人民法院',
];
const SENTENCES = [
  '判处拘役三个月，并处罚金人民币二千元',
  '判处拘役五个月，缓刑六个月',
  '判处有期徒刑八个月，并处罚金人民币五千元',
  '判处有期徒刑一年六个月，缓刑二年',
  '判处有期徒刑三年，并处罚金人民币三万元',
  '判处管制一年',
  '判处罚金人民币八千元',
  '免予刑事处罚',
];
const CHARGES: Record<string, string> = {
  labor: '违反用工条例罪',
  lease: '违反租赁条例罪',
  loan: '违反借贷规定罪',
  shopping: '违反网购办法罪',
  procedure: '妨害纠纷处理罪',
};

const pick = <T>(items: readonly T[], random: Random): T => items[random.int(items.length)]!;

/** In order of law and concept. The same tables give the same cases. */
export function composePrecedents(laws: readonly Law[]): PrecedentRow[] {
  const random = stream(SEED, 'demo-precedents');
  const placed = laws.flatMap((law) => placeConcepts(law)).filter(({ law }) => law in CHARGES);
  return placed.flatMap((one) =>
    Array.from({ length: CASES }, (_, i) =>
      composeCase(one, `d-${one.name.replace('/', '-')}-${i + 1}`, random),
    ),
  );
}

function composeCase({ law, concept, ids }: Placed, id: string, random: Random): PrecedentRow {
  const event = pick(concept.events, random);
  const court = pick(COURTS, random)(pick(PLACES, random));
  const charge = CHARGES[law]!;
  const told = [event, ...(concept.facts.length > 0 ? [pick(concept.facts, random)] : [])].map(
    ({ text }) => text,
  );
  const fact = `检察机关指控，被告人某甲涉及一起纠纷。经审理查明：${told.join('，')}。上述事实有证据证实。`;
  const articles = ids.filter((_, i) => event.answers.includes(i));
  const judgment =
    `${court} 刑事判决书。${fact}本院认为，被告人某甲的行为构成${charge}。判决如下： ` +
    `被告人某甲犯${charge}，${pick(SENTENCES, random)}。 如不服本判决，可在接到判决书的第二日起十日内提出上诉。`;
  // Now and then the court stands in the judgment alone, as in real collections.
  return { id, court: random.int(8) === 0 ? null : court, fact, judgment, articles };
}
