%% Measures on Erlang's own supervisor what the benchmarks of package supervision measure
%% on ours. Reads one command a line and answers each with numbers.
-module(bench).
-behaviour(gen_server).
-export([main/0, init/1, handle_call/3, handle_cast/2, start_sup/1, start_worker/1]).

main() ->
    process_flag(trap_exit, true),
    ok = logger:set_primary_config(level, none),
    Port = open_port({fd, 0, 1}, [{line, 1024}, eof]),
    port_command(Port, ["OTP ", erlang:system_info(otp_release), $\n]),
    loop(Port).

loop(Port) ->
    receive
        {Port, {data, {eol, Line}}} ->
            [Command, N] = string:lexemes(Line, " "),
            Numbers = measure(Command, list_to_integer(N)),
            port_command(Port, [lists:join(" ", [integer_to_list(X) || X <- Numbers]), $\n]),
            loop(Port);
        {Port, eof} -> halt(0, [{flush, false}]);
        {'EXIT', _, _} -> loop(Port)
    end.

%% start_stop: ns for one start_child and one terminate_child of a gen_server.
measure("start_stop", N) ->
    {ok, Sup} = start_sup({simple_one_for_one, 0, temporary, worker, none}),
    Ns = timed(fun() -> repeat(N, fun(_) ->
        {ok, Pid} = supervisor:start_child(Sup, []),
        ok = supervisor:terminate_child(Sup, Pid)
    end) end),
    stop(Sup),
    [Ns div N];
%% crash: ns from telling a gen_server to crash until the init of its successor, five
%% times under each of N supervisors.
measure("crash", N) ->
    {ok, Top} = start_sup({simple_one_for_one, 0, temporary, supervisor, self()}),
    Ns = lists:sum([begin
        {ok, Sup} = supervisor:start_child(Top, []),
        receive {up, First} -> ok end,
        Took = timed(fun() -> lists:foldl(fun(_, Pid) ->
            gen_server:cast(Pid, crash),
            receive {up, Next} -> Next end
        end, First, lists:seq(1, 5)) end),
        ok = supervisor:terminate_child(Top, Sup),
        Took
    end || _ <- lists:seq(1, N)]),
    stop(Top),
    [Ns div (5 * N)];
%% streams: us to start N supervisors with a gen_server each, and to stop them; us to ask
%% them all for their children; bytes for each.
measure("streams", N) ->
    erlang:garbage_collect(),
    Before = erlang:memory(total),
    {ok, Sup} = start_sup({simple_one_for_one, 3, temporary, supervisor, none}),
    Start = timed(fun() -> repeat(N, fun(_) -> {ok, _} = supervisor:start_child(Sup, []) end) end),
    Bytes = (erlang:memory(total) - Before) div N,
    Tree = timed(fun() ->
        N = length([ok || {_, S, _, _} <- supervisor:which_children(Sup), length(supervisor:which_children(S)) =:= 1])
    end),
    Stop = timed(fun() -> stop(Sup) end),
    [Start div 1000, Stop div 1000, Tree div 1000, Bytes].

repeat(0, _) -> ok;
repeat(N, F) -> F(N), repeat(N - 1, F).

timed(F) ->
    Began = erlang:monotonic_time(nanosecond),
    F(),
    erlang:monotonic_time(nanosecond) - Began.

stop(Sup) ->
    exit(Sup, shutdown),
    receive {'EXIT', Sup, _} -> ok end.

start_sup(Args) -> supervisor:start_link(?MODULE, {sup, Args}).
start_worker(Tell) -> gen_server:start_link(?MODULE, {worker, Tell}, []).

init({sup, {Strategy, Intensity, Restart, worker, Tell}}) ->
    {ok, {#{strategy => Strategy, intensity => Intensity, period => 3600},
          [#{id => w, start => {?MODULE, start_worker, [Tell]}, restart => Restart, shutdown => 5000}]}};
init({sup, {Strategy, Intensity, Restart, supervisor, Tell}}) ->
    Inner = {one_for_one, 5, permanent, worker, Tell},
    {ok, {#{strategy => Strategy, intensity => Intensity, period => 10},
          [#{id => s, start => {?MODULE, start_sup, [Inner]}, restart => Restart, type => supervisor}]}};
init({worker, none}) -> {ok, none};
init({worker, Tell}) -> Tell ! {up, self()}, {ok, none}.

handle_call(_, _, S) -> {reply, ok, S}.

handle_cast(crash, _) -> exit(crash).
