import { type Ref, useImperativeHandle, useMemo, useRef } from "react";

export type SourceHandle = { goTo: (line: number) => void };

type SourceTextProps = { ref?: Ref<SourceHandle>; text: string; onChange: (text: string) => void; wrong: number[] };

/** A text with the numbers of its lines, those that are wrong marked. Tab goes on, as in any field. */
export function SourceText({ ref, text, onChange, wrong }: SourceTextProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => text.split("\n"), [text]);
  useImperativeHandle(ref, () => ({
    goTo: (line) => {
      const target = area.current;
      if (!target) return;
      const at = lines.slice(0, Math.max(line - 1, 0)).reduce((sum, each) => sum + each.length + 1, 0);
      target.focus();
      target.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
      const height = Number.parseFloat(getComputedStyle(target).lineHeight);
      target.scrollTop = Math.max(0, (line - 4) * height);
    },
  }));
  const marked = new Set(wrong);
  return (
    <div className="source">
      <div className="gutter num" ref={gutter} aria-hidden>
        {lines.map((_, place) => (
          <span key={place} className={marked.has(place + 1) ? "wrong" : undefined}>
            {place + 1}
          </span>
        ))}
      </div>
      <textarea
        ref={area}
        className="mono"
        aria-label="Spec (YAML)"
        aria-invalid={wrong.length > 0 || undefined}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        wrap="off"
        value={text}
        onChange={(event) => onChange(event.target.value)}
        onScroll={(event) => {
          if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
        }}
      />
    </div>
  );
}
