-- wrk's script: a pull query by a random key; KEYS and PAUSE_MS (between a connection's requests).
local keys = tonumber(os.getenv("KEYS"))
local pause = tonumber(os.getenv("PAUSE_MS"))
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("seed", threads)
end

function init(args)
  math.randomseed(seed)
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  local key = math.random(0, keys - 1)
  return wrk.format(nil, nil, nil, '{"sql":"SELECT * FROM visitors WHERE id = \'user_' .. key .. '\';"}')
end

if pause > 0 then
  function delay()
    return math.random(0, 2 * pause)
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format("RESULT %d %d %d %d %d", summary.requests, summary.duration, failed,
    latency:percentile(50), latency:percentile(99)))
end
