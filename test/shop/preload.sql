INSERT INTO public.customers (name, email, code, feeling, tags, profile, born)
SELECT CASE WHEN i % 7 = 0 THEN 'Zoë "' || i || '" O''Hara' ELSE 'customer ' || i END, 'c' || i || '@example.com',
  to_hex(i % 4096), (ARRAY['sad', 'ok', 'very happy', NULL]::public.mood[])[1 + i % 4],
  CASE WHEN i % 3 = 0 THEN NULL ELSE ARRAY['t' || i % 11, NULL, ''] END,
  jsonb_build_object('n', i, 'text', repeat('p', i % 60)), date '1950-01-01' + i % 20000
FROM generate_series(1, :scale) i;

INSERT INTO public.products
SELECT 'sku-' || i, 'product ' || i, (i % 1000) + 0.99, i % 100, i % 101,
  CASE WHEN i % 5 = 0 THEN NULL ELSE decode(repeat(md5(i::text), 80), 'hex') END
FROM generate_series(1, :scale / 10) i;

INSERT INTO public.orders (customer, status, total, note)
SELECT 1 + i % (:scale), (ARRAY['new', 'paid', 'sent', ''])[1 + i % 4], i * 1.25, CASE WHEN i % 2 = 0 THEN 'note ' || i END
FROM generate_series(1, :scale * 2) i;

INSERT INTO public.order_items
SELECT i, l, 'sku-' || 1 + (i * l) % GREATEST(:scale / 10, 1), l, l + 0.5, i / 3.0, i % 2 = 0, make_interval(mins => i)
FROM generate_series(1, :scale * 2) i, generate_series(1, 1 + i % 2) l;

INSERT INTO public.clicks
SELECT '/p/' || i % 50, CASE WHEN i % 9 = 0 THEN NULL ELSE 'k' || i % 3 END, i % 4, jsonb_build_object('p', i % 5, 'pad', repeat('x', 100))
FROM generate_series(1, :scale) i;

INSERT INTO public.carts SELECT i, ('[' || i || ',  {} ]')::json, repeat('cart ' || i, 600) FROM generate_series(1, 200) i;
INSERT INTO public.scratch SELECT i, 'scratch ' || i FROM generate_series(1, 100) i;
INSERT INTO public.visits SELECT i, ('10.0.' || i % 200 || '.' || i % 250)::inet, now() - make_interval(secs => i) FROM generate_series(1, :scale / 5) i;
INSERT INTO public.blobs (kind, body, doc)
SELECT 'k' || i % 3, decode(repeat(md5(i::text), 1000 * (1 + i % 5)), 'hex'), repeat('doc ' || i, 1000) FROM generate_series(1, 40) i;
ANALYZE;
