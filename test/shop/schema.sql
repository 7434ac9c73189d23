CREATE SCHEMA "back office";

CREATE TYPE public.mood AS ENUM ('sad', 'ok', 'very happy');
CREATE DOMAIN public.percent AS numeric(5,2) CHECK (VALUE BETWEEN 0 AND 100);
CREATE TYPE public.box_size AS (width int, height int, label text);

CREATE TABLE public.audit (
  writer int, n int, events int NOT NULL, done timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (writer, n)
);

CREATE TABLE public.customers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL, email text NOT NULL, code char(6), feeling public.mood,
  tags text[], profile jsonb, born date, joined timestamptz NOT NULL DEFAULT now()
);

-- The photo is stored out of line as it is, so that updates leave it unchanged.
CREATE TABLE public.products (
  sku text PRIMARY KEY, title varchar(80), price numeric(12,2), stock int NOT NULL DEFAULT 0,
  discount public.percent, photo bytea
);
ALTER TABLE public.products ALTER COLUMN photo SET STORAGE EXTERNAL;

CREATE TABLE public.orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer bigint NOT NULL, status text NOT NULL, placed timestamptz NOT NULL DEFAULT clock_timestamp(),
  total numeric(14,2), note text
);

CREATE TABLE public.order_items (
  order_id bigint, line int, sku text NOT NULL, quantity int NOT NULL,
  "unit price" numeric(12,2), "Größe" real, "select" bool, "say ""when""" interval,
  PRIMARY KEY (order_id, line)
);

-- Identified by an index that is not the primary key, with two columns out of line.
CREATE TABLE public.blobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ref uuid NOT NULL DEFAULT gen_random_uuid(),
  kind text NOT NULL, body bytea, doc text
);
ALTER TABLE public.blobs ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN doc SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX blobs_ref ON public.blobs (ref);
ALTER TABLE public.blobs REPLICA IDENTITY USING INDEX blobs_ref;

-- No key, and rows that are equal.
CREATE TABLE public.clicks (page text, kind text, visits int, payload jsonb);
ALTER TABLE public.clicks REPLICA IDENTITY FULL;

-- The whole row although there is a key, with a value out of line.
CREATE TABLE public.carts (id int PRIMARY KEY, items json, note text, changed timestamp NOT NULL DEFAULT now());
ALTER TABLE public.carts ALTER COLUMN note SET STORAGE EXTERNAL;
ALTER TABLE public.carts REPLICA IDENTITY FULL;

CREATE TABLE public.scratch (id int PRIMARY KEY, what text);

CREATE TABLE public.visits (id bigint, host inet, seen timestamptz, PRIMARY KEY (id)) PARTITION BY HASH (id);
CREATE TABLE public.visits_0 PARTITION OF public.visits FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE public.visits_1 PARTITION OF public.visits FOR VALUES WITH (MODULUS 2, REMAINDER 1);

CREATE TABLE "back office"."odd ""values""" (
  id int PRIMARY KEY,
  i2 smallint, i8 bigint, f4 real, f8 double precision, num numeric, cash money,
  d date, ts timestamp, tz timestamptz, clock time, clocktz timetz, span interval,
  yes bool, raw bytea, bits bit varying, one "char", padded char(5), words text,
  ints int[], grid int[][], texts text[], days date[], js json, jb jsonb, x xml,
  u uuid, addr inet, net cidr, mac macaddr, spot point, r int4range, rr numrange, v tsvector,
  m public.mood, moods public.mood[], pct public.percent, box public.box_size, o oid
);

CREATE PUBLICATION millrace_shop FOR TABLE
  public.audit, public.customers, public.products, public.orders, public.order_items, public.blobs, public.clicks,
  public.carts, public.scratch, public.visits, "back office"."odd ""values""";

CREATE ROLE millrace LOGIN REPLICATION;
GRANT USAGE ON SCHEMA public, "back office" TO millrace;
GRANT SELECT ON ALL TABLES IN SCHEMA public, "back office" TO millrace;
