import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useAddress } from "@/address";
import type { Schemas } from "@/api/client";
import { fleets } from "@/api/queries";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Field } from "@/components/Field";
import { Page } from "@/layout/Page";
import { KeyField } from "./KeyField";
import { ShownTurn } from "./ShownTurn";
import { useChat } from "./useChat";

/** A conversation with a model through a gateway: which instances answered, how fast, and at what cost. */
export default function Playground() {
  const known = useQuery(fleets());
  return (
    <Page title="Playground">
      <Loaded query={known} height={400}>
        {(all) => {
          const names = servedNames(all);
          return names.length ? (
            <Talk names={names} />
          ) : (
            <Card>
              <Empty title="No model is served">
                <p>A fleet in mode approve or auto serves the models of its spec, once its plan is accepted. See Specs for the modes.</p>
              </Empty>
            </Card>
          );
        }}
      </Loaded>
    </Page>
  );
}

/** Names that clients may use: of fleets that act, or have been held to a plan. */
function servedNames(all: Schemas["Fleet"][]): string[] {
  const serving = all.filter((fleet) => !fleet.ending && (fleet.mode !== "observe" || fleet.plan.accepted));
  const names = serving.flatMap((fleet) => [...entries(fleet.spec.models, "model"), ...entries(fleet.spec.apps, "graph")]);
  return [...new Set(names)].sort();
}

function entries(list: unknown, otherwise: string): string[] {
  return Array.isArray(list) ? (list as Record<string, string | undefined>[]).flatMap((each) => each.name ?? each[otherwise] ?? []) : [];
}

function Talk({ names }: { names: string[] }) {
  const [said, say] = useAddress();
  const model = names.find((name) => name === said.get("model")) ?? names[0] ?? "";
  const [key, setKey] = useState("");
  const [system, setSystem] = useState("");
  const [most, setMost] = useState("");
  const [heat, setHeat] = useState("");
  const [question, setQuestion] = useState("");
  const talk = useChat();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!question.trim() || talk.isBusy) return;
    setQuestion("");
    void talk.ask(question, { model, key, system: system.trim(), max_tokens: most ? Number(most) : null, temperature: heat ? Number(heat) : null });
  };
  return (
    <div className="grid wide-narrow">
      <Card title="Conversation" side={talk.turns.length > 0 && <Button small tone="ghost" onClick={talk.clear} refusal={talk.isBusy ? "An answer is on its way." : ""}>Begin anew</Button>}>
        <div className="stack">
          {talk.turns.length === 0 && (
            <Empty compact title="Nothing was asked yet">
              <p>Each answer says which instances gave it, how fast, and what it took of them in dollars.</p>
            </Empty>
          )}
          <ol className="turns" aria-label="Conversation">
            {talk.turns.map((turn, place) => (
              <ShownTurn key={place} turn={turn} />
            ))}
          </ol>
          <form className="stack" onSubmit={submit}>
            <Field label={`Ask ${model}`}>
              {(field) => (
                <textarea
                  {...field}
                  className="input ask"
                  rows={3}
                  value={question}
                  onChange={(event) => setQuestion(event.target.value)}
                  onKeyDown={(event) => {
                    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
                  }}
                />
              )}
            </Field>
            <div className="row wrap spread">
              <span className="muted">Ctrl+Enter sends</span>
              <span className="row">
                {talk.isBusy && <Button onClick={talk.stop}>Stop</Button>}
                <Button type="submit" tone="primary" refusal={talk.isBusy ? "An answer is on its way." : question.trim() ? "" : "Write something first."}>
                  Send
                </Button>
              </span>
            </div>
          </form>
        </div>
      </Card>
      <Card title="How">
        <div className="stack">
          <Field label="Model">
            {(field) => (
              <select {...field} className="select" value={model} onChange={(event) => say({ model: event.target.value })}>
                {names.map((each) => <option key={each}>{each}</option>)}
              </select>
            )}
          </Field>
          <KeyField value={key} onChange={setKey} />
          <Field label="System message">
            {(field) => <textarea {...field} className="input" rows={2} value={system} onChange={(event) => setSystem(event.target.value)} />}
          </Field>
          <div className="grid two">
            <Field label="Most tokens">
              {(field) => <input {...field} className="input" type="number" min="1" placeholder="as many as fit" value={most} onChange={(event) => setMost(event.target.value)} />}
            </Field>
            <Field label="Temperature">
              {(field) => <input {...field} className="input" type="number" min="0" max="2" step="0.1" placeholder="the model's own" value={heat} onChange={(event) => setHeat(event.target.value)} />}
            </Field>
          </div>
        </div>
      </Card>
    </div>
  );
}
