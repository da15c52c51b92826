import { Link } from "react-router";
import type { Route } from "@/api/chat";
import { ProblemBox } from "@/components/feedback";
import { brief, Count, Usd } from "@/components/figures";
import type { Turn } from "./useChat";

/** A question, its answer as it comes, and what it took. */
export function ShownTurn({ turn }: { turn: Turn }) {
  return (
    <li className="turn">
      <p className="question break">{turn.question}</p>
      {turn.reasoning && (
        <details className="muted">
          <summary>What it thought</summary>
          <p className="answer">{turn.reasoning}</p>
        </details>
      )}
      <div className="answer" aria-live="polite" aria-busy={turn.whole_ms === null}>
        {turn.answer || (turn.whole_ms === null && <span className="muted">{turn.waits || "Waiting for the first token…"}</span>)}
      </div>
      <ProblemBox error={turn.error} />
      {turn.whole_ms !== null && !turn.error && <Took turn={turn} />}
    </li>
  );
}

function Took({ turn }: { turn: Turn }) {
  const { route, first_ms, whole_ms } = turn;
  const rest_s = ((whole_ms ?? 0) - (first_ms ?? 0)) / 1000;
  const rate = route && route.output_tokens > 1 && rest_s > 0 ? (route.output_tokens - 1) / rest_s : null;
  return (
    <div className="took muted">
      <div className="row wrap">
        {first_ms !== null && <span>first token after {brief(first_ms)} ms</span>}
        {rate !== null && <span>{brief(rate)} tokens/s</span>}
        {route && (
          <span>
            <Count value={route.output_tokens} /> tokens, prompt <Count value={route.prompt_tokens} />
          </span>
        )}
        {route && route.usd > 0 && (
          <span title="If all that its instances are planned to sustain is used; idle time is not counted.">
            <data value={route.usd}>{tiny(route.usd)}</data>, <Usd value={(route.usd / Math.max(route.prompt_tokens + route.output_tokens, 1)) * 1e6} /> a million tokens
          </span>
        )}
      </div>
      {route && <By route={route} />}
    </div>
  );
}

function By({ route }: { route: Route }) {
  const last = route.attempts.at(-1) ?? [];
  const lost = route.attempts.length - 1;
  if (!last.length) return <div>The gateway does not say which instances answered: it is of an earlier release.</div>;
  return (
    <div className="row wrap">
      <span>answered by</span>
      {last.map((each, place) => (
        <span key={`${each.id} ${place}`}>
          {place > 0 && "→ "}
          {each.zone ? (
            <Link className="mono" to={`/fleet/${encodeURIComponent(each.id)}`}>
              {each.id}
            </Link>
          ) : (
            <span className="mono">{each.id}</span>
          )}{" "}
          {[each.leg, each.zone].filter(Boolean).join(", ")}
        </span>
      ))}
      {lost > 0 && <span className="warn">after {lost === 1 ? "1 try that was" : `${lost} tries that were`} lost</span>}
    </div>
  );
}

/** Dollars of one answer are thousandths of a cent. */
function tiny(usd: number): string {
  return `$${usd.toLocaleString(undefined, { maximumSignificantDigits: 2, maximumFractionDigits: 9 })}`;
}
