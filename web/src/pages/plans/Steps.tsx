import { useState } from "react";
import type { Schemas } from "@/api/client";
import { Badge, type Tone } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty, Warning } from "@/components/feedback";

const MOST = 12;
const TONES: Record<string, Tone> = { launch: "good", drain: "warn", release: "bad" };

/** What is launched, drained and released, step by step. */
export function Steps({ diff }: { diff: Schemas["PlanDiff"] }) {
  const [all, setAll] = useState(false);
  if (diff.is_empty && !diff.stuck.length) {
    return (
      <Empty title="Nothing changes" compact>
        <p>What runs is what this plan wants.</p>
      </Empty>
    );
  }
  const lines = diff.steps.flatMap((step, number) => step.text.map((text) => ({ number, text })));
  const shown = all ? lines : lines.slice(0, MOST);
  return (
    <>
      {diff.stuck.length > 0 && (
        <div className="stuck">
          <Warning>
            {diff.stuck.map((reason) => (
              <div key={reason}>{reason}</div>
            ))}
          </Warning>
        </div>
      )}
      <ol className="moves">
        {shown.map((line, place) => {
          const [word = "", ...rest] = line.text.split(" ");
          const isFirst = place === 0 || shown[place - 1]?.number !== line.number;
          return (
            <li key={`${line.number} ${line.text}`} className={isFirst && line.number > 0 ? "begins" : ""}>
              {isFirst && diff.steps.length > 1 && <div className="muted step-name">Step {line.number + 1}</div>}
              <Badge tone={TONES[word] ?? "plain"}>{word}</Badge>
              <span className="break">{rest.join(" ")}</span>
            </li>
          );
        })}
      </ol>
      {lines.length > MOST && (
        <div className="more">
          <Button small tone="ghost" onClick={() => setAll(!all)}>
            {all ? "Show fewer" : `Show all ${lines.length}`}
          </Button>
        </div>
      )}
    </>
  );
}
