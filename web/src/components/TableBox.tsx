import { type ReactNode, useLayoutEffect, useRef, useState } from "react";

type TableBoxProps = { label: string; className?: string; children: ReactNode };

/** Around a table that may be wider than the page: it scrolls by itself, and by the keyboard where there is something to scroll. */
export function TableBox({ label, className = "", children }: TableBoxProps) {
  const box = useRef<HTMLElement>(null);
  const [scrolls, setScrolls] = useState(false);
  useLayoutEffect(() => {
    const target = box.current;
    if (!target) return;
    const look = () => setScrolls(target.scrollWidth > target.clientWidth + 1 || target.scrollHeight > target.clientHeight + 1);
    const sized = new ResizeObserver(look);
    for (const each of [target, ...target.children]) sized.observe(each);
    return () => sized.disconnect();
  }, []);
  return (
    <section className={`table-box ${className}`} ref={box} aria-label={label} tabIndex={scrolls ? 0 : undefined}>
      {children}
    </section>
  );
}
