%% Carries out on Erlang's own supervisor the programs of package otp (see doc.go there):
%% reads one command a line from standard input and answers each with one line.
%%
%% Nothing here waits for time to pass. A command is answered once every death it caused
%% was handled: no supervisor lists a dead child or one that is restarting. Whatever may
%% block behind a held child is done by a helper process, so that the answer can be "held".
-module(driver).
-behaviour(supervisor).
-export([main/0, init/1, log/2, start/5, start_more/3, worker/2]).

%% top: the supervisor of the present program. where: init or stop, of the latest hold.
%% held: {Path, Pid} of the child that waits
%% for "open". pending: operations begun before or while it waits, the latest first.
-record(s, {flags = #{}, children = [], top = none, where = "", held = none, pending = []}).

main() ->
    process_flag(trap_exit, true),
    ok = logger:set_primary_config(level, error),
    ok = logger:add_handler(driver, ?MODULE, #{}),
    ok = logger:remove_handler(default),
    [ets:new(T, [named_table, public, ordered_set]) || T <- [event, count, place, armed, simple]],
    Driver = self(),
    spawn_link(fun() -> talk(Driver, open_port({fd, 0, 1}, [{line, 65536}, eof])) end),
    loop(#s{}).

%% talk is a process of its own, so that the end of input ends a driver that hangs.
talk(Driver, Port) ->
    port_command(Port, ["OTP ", erlang:system_info(otp_release), $\n]),
    talk_on(Driver, Port).

talk_on(Driver, Port) ->
    receive
        {Port, {data, {eol, Line}}} -> Driver ! {line, self(), Line};
        {answer, Answer} -> port_command(Port, [Answer, $\n]);
        {Port, eof} -> halt(0, [{flush, false}])
    end,
    talk_on(Driver, Port).

loop(S) ->
    receive {line, From, Line} ->
        {Answer, S1} = command(string:lexemes(Line, " "), S),
        From ! {answer, Answer},
        loop(S1)
    end.

%% ---- commands ---------------------------------------------------------------

command(["sup" | Flags], _) -> {"ok", (clean())#s{flags = words(Flags)}};
command(["child", Path | Words], S) -> {"ok", S#s{children = S#s.children ++ [{Path, words(Words)}]}};
command(["end"], _) -> {"ok", clean()};
command(["open", Verdict], S) -> open(Verdict, S);
command(["hold", Path, Where], S = #s{held = none}) ->
    ets:delete_all_objects(armed),
    ets:insert(armed, {{Path, Where}, self()}),
    {"ok", S#s{where = Where}};
command(["boot"], S = #s{held = none}) -> boot(S);
command([_ | _], S = #s{top = none}) -> {"noproc" ++ seen(none, ""), S};
command(["pass", Ms], S = #s{held = none}) ->
    timer:sleep(list_to_integer(Ms)),
    settled("ok", S);
command(["stop"], S = #s{held = none}) ->
    case is_process_alive(S#s.top) of
        true -> exit(S#s.top, shutdown), settled("ok", S);
        false -> settled("noproc", S)
    end;
command(["exit", Path, Why], S = #s{held = none}) -> settled(exit_child(Path, Why), S);
command(["exit", Path, Why], S) ->
    %% Where all stop at the same time, others may or may not be dead already.
    Sure = S#s.where =:= "init" orelse not is_simple(place(parent(Path))),
    case Sure andalso beside(Path, S) andalso Path =/= element(1, S#s.held) of
        true -> {exit_queued(Path, Why), S};
        false -> {"busy", S}
    end;
command([Verb, Path | Words], S = #s{held = none}) ->
    Helper = helper(fun() -> call(Verb, Path, words(Words)) end),
    receive
        {done, Helper, Answer} -> settled(Answer, S);
        {held, Who, Pid} -> {"held", S#s{held = {Who, Pid}, pending = [Helper]}}
    end;
command([Verb, Path | Words], S) ->
    Sup = place(parent(Path)),
    case beside(Path, S) andalso (Verb =:= "add" orelse not is_simple(Sup)) of
        true ->
            Helper = helper(fun() -> call(Verb, Path, words(Words)) end),
            in_mailbox(Sup, fun({'$gen_call', {From, _}, _}) -> From =:= Helper; (_) -> false end),
            {"posted", S#s{pending = [Helper | S#s.pending]}};
        false -> {"busy", S}
    end;
command(_, S) -> {"busy", S}.

%% What is done while a child is held concerns the supervisor that waits for it, whose
%% mailbox says when it has arrived.
beside(Path, #s{held = {Who, _}}) -> parent(Path) =:= parent(Who).

boot(S) ->
    case (catch start("", "", "", S#s.flags, S#s.children)) of
        {ok, Top} -> settled("ok", S#s{top = Top});
        {error, Why} ->
            receive {'EXIT', _, _} -> ok end,
            Answer = case Why of
                {shutdown, {failed_to_start_child, Id, _}} -> "failed " ++ Id;
                _ -> "bad_spec"
            end,
            {Answer ++ seen(none, ""), S}
    end.

open(_, S = #s{held = none}) ->
    ets:delete_all_objects(armed),
    case S#s.top of
        none -> {"none" ++ seen(none, ""), S};
        _ -> settled("none", S)
    end;
open(Verdict, S = #s{held = {_, Pid}, pending = Pending}) ->
    Pid ! {open, Verdict},
    Answers = [receive {done, Helper, Answer} -> Answer end || Helper <- lists:reverse(Pending)],
    settled(lists:join($,, Answers), S#s{held = none, pending = []}).

helper(F) ->
    Driver = self(),
    spawn(fun() -> Driver ! {done, self(), F()} end).

%% settled answers once nothing is left to be handled, or a child is held.
settled(Answer, S = #s{top = Top}) ->
    Helper = helper(fun() -> settle(Top) end),
    receive
        {done, Helper, Tree} -> {[Answer | seen(Top, Tree)], S};
        {held, Who, Pid} ->
            exit(Helper, kill),
            Done = helper(fun() -> Answer end),
            {"held", S#s{held = {Who, Pid}, pending = [Done]}}
    end.

settle(Top) ->
    case is_process_alive(Top) of
        false -> "";
        true ->
            try tree(Top)
            catch throw:unsettled -> erlang:yield(), settle(Top)
            end
    end.

seen(Top, Tree) ->
    State = case Top =/= none andalso is_process_alive(Top) of
        true -> "alive " ++ Tree;
        false when Top =:= none -> "none";
        false -> receive {'EXIT', Top, Why} -> self() ! {'EXIT', Top, Why}, io_lib:format("down ~w", [Why]) end
    end,
    Events = [E || {_, E} <- ets:tab2list(event)],
    ets:delete_all_objects(event),
    [" | ", State, " | ", lists:join(", ", Events)].

%% tree lists the children, the latest first, and OTP's four counts.
tree(Sup) ->
    Children = ask(Sup, which_children),
    Names = [name(Sup, C) || C <- Children],
    Ordered = case is_simple(Sup) of true -> lists:sort(Names); false -> Names end,
    Counts = [integer_to_list(N) || {_, N} <- ask(Sup, count_children)],
    ["(", lists:join(" ", Ordered), ")", lists:join("/", Counts)].

name(_, {_, restarting, _, _}) -> throw(unsettled);
name(_, {Id, undefined, _, _}) -> [Id, ":undefined"];
name(Sup, {Id, Pid, Type, _}) ->
    is_process_alive(Pid) orelse throw(unsettled),
    Name = case is_simple(Sup) of true -> last(place(Pid)); false -> Id end,
    case Type of
        supervisor -> [Name | tree(Pid)];
        worker -> Name
    end.

ask(Sup, What) ->
    try gen_server:call(Sup, What, infinity)
    catch exit:_ -> throw(unsettled)
    end.

%% ---- what is done to a supervisor -------------------------------------------

call(Verb, Path, Words) ->
    Sup = place(parent(Path)),
    case ets:member(simple, Sup) andalso is_process_alive(Sup) of
        false -> "noproc";
        true ->
            try answer(call(Verb, Sup, is_simple(Sup), Path, Words))
            catch exit:_ -> "noproc"
            end
    end.

call("add", Sup, true, Path, Words) ->
    supervisor:start_child(Sup, [last(Path), Words]);
call("add", Sup, false, Path, Words) ->
    supervisor:start_child(Sup, child_spec(parent(Path), "", last(Path), Words, []));
call("terminate", Sup, true, Path, _) ->
    %% By pid here, which knows no child that has ended.
    Pid = place(Path),
    case is_pid(Pid) andalso is_process_alive(Pid) of
        true -> supervisor:terminate_child(Sup, Pid);
        false -> {error, not_found}
    end;
call("terminate", Sup, _, Path, _) -> supervisor:terminate_child(Sup, last(Path));
call("restart", Sup, _, Path, _) ->
    %% Whether the init ignored it is seen in the tree.
    case supervisor:restart_child(Sup, last(Path)) of
        {ok, _} -> ok;
        Other -> Other
    end;
call("delete", Sup, _, Path, _) -> supervisor:delete_child(Sup, last(Path)).

answer(ok) -> "ok";
answer({ok, undefined}) -> "ignored";
answer({ok, _}) -> "ok";
answer({error, {already_started, _}}) -> "already_started";
answer({error, {bad_combination, _}}) -> "bad_spec";
answer({error, simple_one_for_one}) -> "not_simple";
answer({error, Why}) when Why =:= already_present; Why =:= not_found; Why =:= running; Why =:= restarting ->
    atom_to_list(Why);
answer({error, _}) -> "failed".

%% exit_child ends a child, and waits until all that die of it alone are dead.
exit_child(Path, Why) ->
    case target(Path, Why) of
        none -> "noproc";
        Pid ->
            Orphans = [P || {Q, P} <- ets:tab2list(place), is_list(Q), lists:prefix(Path ++ "/", Q)],
            kill(Pid, Why),
            await_death([Pid | Orphans]),
            "ok"
    end.

exit_queued(Path, Why) ->
    case target(Path, Why) of
        none -> "noproc";
        Pid ->
            kill(Pid, Why),
            await_death([Pid]),
            in_mailbox(place(parent(Path)), fun({'EXIT', P, _}) -> P =:= Pid; (_) -> false end),
            "ok"
    end.

%% target is the live process of that path; a supervisor can only be killed.
target(Path, Why) ->
    Pid = place(Path),
    case is_pid(Pid) andalso is_process_alive(Pid) of
        true when Why =:= "kill" -> Pid;
        true -> case ets:member(simple, Pid) of true -> none; false -> Pid end;
        false -> none
    end.

kill(Pid, "kill") -> exit(Pid, kill);
kill(Pid, Why) -> Pid ! {exit, reason(Why)}.

reason("normal") -> normal;
reason("shutdown") -> shutdown;
reason("{shutdown,x}") -> {shutdown, x};
reason("crash") -> crash.

await_death(Pids) ->
    [receive {'DOWN', M, process, _, _} -> ok end || M <- [monitor(process, P) || P <- Pids]].

in_mailbox(Pid, Is) ->
    {messages, Ms} = process_info(Pid, messages),
    case lists:any(Is, Ms) of
        true -> ok;
        false -> erlang:yield(), in_mailbox(Pid, Is)
    end.

%% clean ends what a program left behind.
clean() ->
    Left = [P || {_, P} <- ets:tab2list(place), is_pid(P)],
    [exit(P, kill) || P <- Left],
    await_death(Left),
    [ets:delete_all_objects(T) || T <- [event, count, place, armed, simple]],
    flush(),
    #s{}.

flush() -> receive {'EXIT', _, _} -> flush(); {held, _, _} -> flush(); {done, _, _} -> flush() after 0 -> ok end.

%% ---- supervisors and workers ------------------------------------------------

%% start starts the process at Path. Template is where its declaration, and those of its
%% children, stand: they differ below a simple_one_for_one supervisor.
start(Parent, Template, Id, Words, Children) ->
    Path = join(Parent, Id),
    case maps:is_key("strategy", Words) of
        true -> supervisor:start_link(?MODULE, {Path, Template, Words, Children});
        false -> proc_lib:start_link(?MODULE, worker, [Path, Words])
    end.

init({Path, Template, Words, Children}) ->
    Simple = word("strategy", Words, "") =:= "simple_one_for_one",
    settle_in(Path),
    ets:insert(simple, {self(), Simple}),
    Flags = #{strategy => list_to_atom(word("strategy", Words, "")),
              intensity => list_to_integer(word("intensity", Words, "1")),
              period => list_to_integer(word("period", Words, "1000000")),
              auto_shutdown => list_to_atom(word("auto", Words, "never"))},
    Specs = [{T, W} || {T, W} <- Children, parent(T) =:= Template],
    {ok, {Flags, [if Simple -> template(Path, T, W, Children);
                     true -> child_spec(Path, T, last(T), W, Children) end || {T, W} <- Specs]}}.

child_spec(Parent, Template, Id, W, Children) ->
    Type = case maps:is_key("strategy", W) of true -> supervisor; false -> worker end,
    #{id => Id, start => {?MODULE, start, [Parent, Template, Id, W, Children]},
      restart => list_to_atom(word("restart", W, "permanent")),
      significant => maps:is_key("significant", W),
      shutdown => shutdown(word("shutdown", W, "60000")), type => Type}.

%% template: start_child appends the name and what it overrides.
template(Parent, Template, W, Children) ->
    Start = fun(Id, Own) -> start(Parent, Template, Id, maps:merge(W, Own), Children) end,
    (child_spec(Parent, Template, "template", W, Children))#{start => {?MODULE, start_more, [Start]}}.

start_more(Start, Id, Own) -> Start(Id, Own).

shutdown("infinity") -> infinity;
shutdown("brutal") -> brutal_kill;
shutdown(Ms) -> list_to_integer(Ms).

worker(Path, W) ->
    Trap = maps:is_key("trap", W),
    process_flag(trap_exit, Trap),
    settle_in(Path),
    N = ets:update_counter(count, Path, 1, {Path, 0}),
    event(["start ", Path]),
    Outcomes = string:lexemes(word("init", W, "ok"), ","),
    case hold(Path, "init", lists:nth(min(N, length(Outcomes)), Outcomes)) of
        "ok" -> proc_lib:init_ack({ok, self()}), run(Path, W);
        "ignore" -> proc_lib:init_ack(ignore);
        "error" -> proc_lib:init_ack({error, no});
        "crash" -> exit(crash)
    end.

run(Path, W) ->
    receive
        {exit, Why} -> exit(Why);
        {'EXIT', _, Why} ->
            %% One that lingers is killed for it, maybe before it gets to run at all.
            case maps:is_key("linger", W) of
                true -> receive never -> ok end;
                false -> ok
            end,
            event(["stopping ", Path]),
            hold(Path, "stop", "ok"),
            event(["stopped ", Path]),
            exit(Why)
    end.

%% hold waits for the driver's verdict, if it was told to.
hold(Path, Where, Otherwise) ->
    case ets:take(armed, {Path, Where}) of
        [{_, Driver}] -> Driver ! {held, Path, self()}, receive {open, Verdict} -> Verdict end;
        [] -> Otherwise
    end.

event(E) -> ets:insert(event, {erlang:unique_integer([monotonic]), E}).

%% log takes the supervisors' reports, on their own processes.
log(#{msg := {report, #{label := {supervisor, What}, report := R}}}, _) ->
    Sup = self(),
    Offender = proplists:get_value(offender, R),
    Who = case {is_simple(Sup), proplists:get_value(pid, Offender)} of
        {false, _} -> join(place(Sup), proplists:get_value(id, Offender));
        {true, {restarting, Pid}} -> place(Pid);
        {true, Pid} when is_pid(Pid) -> place(Pid);
        {true, _} -> none
    end,
    case What of
        child_terminated -> event(["terminated ", Who]);
        shutdown_error when Who =/= none -> is_simple(Sup) orelse event(["fault ", Who]);
        shutdown -> event(["limit ", Who]);
        _ -> ok
    end;
log(_, _) -> ok.

%% ---- places: path to latest process, and process to path ---------------------

settle_in(Path) -> ets:insert(place, [{Path, self()}, {self(), Path}]).

place(Key) ->
    case ets:lookup(place, Key) of
        [{_, Value}] -> Value;
        [] -> none
    end.

is_simple(Pid) -> ets:lookup(simple, Pid) =:= [{Pid, true}].

words(Ws) -> maps:from_list([case string:split(W, "=") of [K, V] -> {K, V}; [K] -> {K, ""} end || W <- Ws]).
word(Key, Words, Default) -> maps:get(Key, Words, Default).

join("", Id) -> Id;
join(Parent, Id) -> Parent ++ "/" ++ Id.

parent(Path) ->
    case string:split(Path, "/", trailing) of
        [Parent, _] -> Parent;
        [_] -> ""
    end.

last(Path) -> lists:last(string:lexemes(Path, "/")).
