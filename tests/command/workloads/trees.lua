-- Trees, strings, coroutines and both ways of collecting what is left of them.
local function made(depth)
  if depth == 0 then return {} end
  return {made(depth - 1), made(depth - 1), depth}
end
local function size(tree) return tree[1] and 1 + size(tree[1]) + size(tree[2]) or 1 end
local kept, words = {}, {}
for i = 1, tonumber(arg[1]) do
  kept[i % 50] = made(i % 12)
  words[#words + 1] = string.rep(string.format("%d-%s", i, ("x"):rep(i % 90)), 3)
  if i % 100 == 0 then
    table.sort(words)
    words = {table.concat(words):sub(1, 5000)}
    collectgarbage(i % 300 == 0 and "generational" or "incremental")
  end
end
local sum = 0
for _, tree in pairs(kept) do sum = sum + size(tree) end
local numbers = coroutine.wrap(function() for i = 1, 1000 do coroutine.yield(i * i) end end)
for i = 1, 1000 do sum = sum + numbers() end
print(sum, #words[1], (words[1]:gsub("%d", "#")):sub(1, 60))
error({code = 2})
