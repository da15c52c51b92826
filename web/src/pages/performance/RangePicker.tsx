import { type FormEvent, useState } from "react";
import { RANGES, type Range } from "@/api/range";
import type { Say } from "@/address";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Field } from "@/components/Field";
import { near } from "@/components/figures";
import { Segments } from "@/components/Segments";

/** The one time range of all charts, as the address says it. */
export function RangePicker({ range, say }: { range: Range; say: Say }) {
  const [asks, setAsks] = useState(false);
  const preset = "hours" in range ? (RANGES.find(({ hours }) => hours === range.hours)?.value ?? "") : "";
  const shown = "since" in range ? `${near(new Date(range.since))} – ${near(new Date(range.until))}` : "Between…";
  return (
    <>
      <div className="segments-box">
        <Segments label="Time range" value={preset} onChange={(next) => say({ range: next, since: "", until: "" })} options={RANGES} />
      </div>
      <Button onClick={() => setAsks(true)} aria-label={`${shown}: another time range`}>
        {shown}
      </Button>
      {asks && <Between range={range} onClose={() => setAsks(false)} onSaid={(since, until) => say({ range: "", since, until })} />}
    </>
  );
}

function Between({ range, onClose, onSaid }: { range: Range; onClose: () => void; onSaid: (since: string, until: string) => void }) {
  const now = Date.now();
  const [begin, setBegin] = useState(local("since" in range ? Date.parse(range.since) : now - range.hours * 3_600_000));
  const [end, setEnd] = useState(local("since" in range ? Date.parse(range.until) : now));
  const isOver = Boolean(begin && end) && new Date(begin) >= new Date(end);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isOver) return;
    onSaid(new Date(begin).toISOString(), new Date(end).toISOString());
    onClose();
  };
  return (
    <Dialog open onClose={onClose} title="Time range" text="In your own time zone. You can also drag across a chart.">
      <form className="stack" onSubmit={submit}>
        <Field label="From">{(field) => <input {...field} className="input" type="datetime-local" required value={begin} onChange={(event) => setBegin(event.target.value)} />}</Field>
        <Field label="To" wrong={isOver ? "It ends before it begins." : ""}>
          {(field) => <input {...field} className="input" type="datetime-local" required value={end} onChange={(event) => setEnd(event.target.value)} />}
        </Field>
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary">Show</Button>
        </div>
      </form>
    </Dialog>
  );
}

/** As an input of a date and time has it: in the browser's zone, to the minute. */
function local(ms: number): string {
  const moved = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return moved.toISOString().slice(0, 16);
}
