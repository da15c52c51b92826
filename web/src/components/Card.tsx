import { type ReactNode, useId } from "react";

type CardProps = { title?: ReactNode; side?: ReactNode; flush?: boolean; className?: string; children: ReactNode };

export function Card({ title, side, flush, className = "", children }: CardProps) {
  const id = useId();
  return (
    <section className={`card ${className}`} aria-labelledby={title ? id : undefined}>
      {title && (
        <header>
          <h2 id={id}>{title}</h2>
          {side}
        </header>
      )}
      <div className={flush ? "body flush" : "body"}>{children}</div>
    </section>
  );
}

/** One figure with its name; `note` says what it is held against. */
export function Stat({ name, note, children }: { name: ReactNode; note?: ReactNode; children: ReactNode }) {
  return (
    <dl className="card stat">
      <dt>{name}</dt>
      <dd className="figure">{children}</dd>
      {note && <dd className="note">{note}</dd>}
    </dl>
  );
}
