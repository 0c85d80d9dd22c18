-- In the table t, of ROWS rows, which are made first.
pragma journal_mode = memory;
create table t(a integer primary key, b text, c real, d blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < ROWS)
  insert into t select i, printf('%0*d', i % 200 + 1, i), i / 7.0, zeroblob(i % 3000 / (1 + i % 9)) from n;
create index by_b on t(b);
create index by_d on t(length(d), c);
select count(*), sum(length(b)), sum(length(d)), round(sum(c)) from t;
update t set b = b || a, d = zeroblob(length(d) * 2) where a % 3 = 0;
delete from t where a % 5 = 0;
select length(b) % 10 as l, count(*), min(a), max(b), group_concat(a % 7, '') from
  (select * from t order by b desc limit 5000) group by l order by l;
select sum(x), max(y) from (select row_number() over (partition by a % 11 order by b) as x,
  lag(a, 3) over (order by c) as y from t);
select count(*) from t x join t y on y.a = x.a + 1 where y.b > x.b;
select json_extract(json_group_array(json_object('a', a, 'b', b)), '$[77].b') from (select * from t limit 3000);
create virtual table words using fts5(w);
insert into words select b || ' word' || (a % 100) from t limit 5000;
select count(*) from words where words match 'word42';
begin; delete from t; rollback;
vacuum;
pragma integrity_check;
select no_such_column from t;
