"""Compiles the allow-listed nodes of a parsed expression to closures and refuses all others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeAlias

from agent_gate.policy import operations
from agent_gate.policy.functions import FUNCTIONS
from agent_gate.policy.operations import Budget, ExpressionError, Operation

Env: TypeAlias = Mapping[str, object]
Run: TypeAlias = Callable[[Env, Budget], object]

_ARITHMETIC: Mapping[type[ast.operator], Operation] = {
    ast.Add: operations.add,
    ast.Sub: operations.subtract,
    ast.Mult: operations.multiply,
    ast.Div: operations.divide,
    ast.FloorDiv: operations.floor_divide,
    ast.Mod: operations.modulo,
}

_COMPARISONS: Mapping[type[ast.cmpop], Operation] = {
    ast.Eq: operations.equal,
    ast.NotEq: lambda budget, left, right: not operations.equal(budget, left, right),
    ast.Lt: operations.less,
    ast.Gt: lambda budget, left, right: operations.less(budget, right, left),
    ast.LtE: lambda budget, left, right: not operations.less(budget, right, left),
    ast.GtE: lambda budget, left, right: not operations.less(budget, left, right),
    ast.In: operations.contains,
    ast.NotIn: lambda budget, left, right: not operations.contains(budget, left, right),
    ast.Is: lambda _, left, right: left is right,
    ast.IsNot: lambda _, left, right: left is not right,
}

_HINTS: Mapping[str, str] = {
    "true": "write True",
    "false": "write False",
    "null": "write None",
    "args": "the arguments are `inputs`",
    "role": "the agent's roles are `roles`",
    "agent": "the agent is `agent_id`",
}

_INSTEAD: Mapping[type[ast.expr], str] = {
    ast.Attribute: "uses an attribute; write value['key'] or get(value, 'key', default)",
    ast.JoinedStr: "is a formatted text; only plain texts are allowed",
}


def one_line(words: str) -> str:
    shown = " ".join(words.split())
    return shown if len(shown) <= 80 else shown[:77] + "..."


class Compiler:
    """Turns allowed nodes into closures and refuses all others."""

    def __init__(self, source: str, names: frozenset[str]) -> None:
        self._source = source
        self._names = names
        self.used: set[str] = set()

    def compile(self, node: ast.expr) -> Run:
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.List() | ast.Tuple():
                return self._list(node)
            case ast.Dict():
                return self._object(node)
            case ast.BoolOp():
                return self._bool_op(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return self._binary(_ARITHMETIC[type(node.op)], node.left, node.right)
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                return self._if(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Call():
                return self._call(node)
            case _:
                raise self._refused(node, _INSTEAD.get(type(node), "is not allowed here"))

    def _refused(self, node: ast.expr, why: str) -> ExpressionError:
        words = one_line(ast.get_source_segment(self._source, node) or type(node).__name__)
        return ExpressionError(f"`{words}` {why}")

    def _constant(self, node: ast.Constant) -> Run:
        value: object = node.value
        if value is not None and not isinstance(value, bool | str):
            if not operations.is_number(value):
                raise self._refused(node, "is not allowed here")
            value = operations.number(value)
        return lambda _env, _budget: value

    def _name(self, node: ast.Name) -> Run:
        name = node.id
        if name not in self._names:
            hint = _HINTS.get(name, "known are " + ", ".join(sorted(self._names)))
            raise self._refused(node, f"is not a known name; {hint}")
        self.used.add(name)

        def load(env: Env, _: Budget) -> object:
            try:
                return env[name]
            except KeyError:
                raise ExpressionError(f"`{name}` is not known here") from None

        return load

    def _list(self, node: ast.List | ast.Tuple) -> Run:
        items = [self.compile(item) for item in node.elts]
        return lambda env, budget: [item(env, budget) for item in items]

    def _object(self, node: ast.Dict) -> Run:
        pairs: list[tuple[str, Run]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise self._refused(node, "has a key that is not plain text")
            pairs.append((key.value, self.compile(value)))
        return lambda env, budget: {key: value(env, budget) for key, value in pairs}

    def _bool_op(self, node: ast.BoolOp) -> Run:
        operands = [self.compile(value) for value in node.values]
        decided_by = isinstance(node.op, ast.Or)

        def run(env: Env, budget: Budget) -> object:
            value: object = None
            for operand in operands:
                value = operand(env, budget)
                if bool(value) is decided_by:
                    break
            return value

        return run

    def _unary(self, node: ast.UnaryOp) -> Run:
        operand = self.compile(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda env, budget: not operand(env, budget)
        if isinstance(node.op, ast.USub):
            return lambda env, budget: -operations.number(operand(env, budget))
        raise self._refused(node, "is not allowed here")

    def _binary(self, operation: Operation, left: ast.expr, right: ast.expr) -> Run:
        first, second = self.compile(left), self.compile(right)
        return lambda env, budget: operation(budget, first(env, budget), second(env, budget))

    def _compare(self, node: ast.Compare) -> Run:
        for op, right in zip(node.ops, node.comparators, strict=True):
            singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
            if isinstance(op, ast.Is | ast.IsNot) and not singleton:
                raise self._refused(node, "uses `is` with something other than None, True or False; write `==`")
        if len(node.ops) == 1:
            return self._binary(_COMPARISONS[type(node.ops[0])], node.left, node.comparators[0])
        first = self.compile(node.left)
        links = [
            (_COMPARISONS[type(op)], self.compile(right)) for op, right in zip(node.ops, node.comparators, strict=True)
        ]

        def run(env: Env, budget: Budget) -> object:
            left = first(env, budget)
            for comparison, operand in links:
                right = operand(env, budget)
                if not comparison(budget, left, right):
                    return False
                left = right
            return True

        return run

    def _if(self, node: ast.IfExp) -> Run:
        test, body, orelse = self.compile(node.test), self.compile(node.body), self.compile(node.orelse)
        return lambda env, budget: body(env, budget) if test(env, budget) else orelse(env, budget)

    def _subscript(self, node: ast.Subscript) -> Run:
        words = one_line(ast.get_source_segment(self._source, node) or "")
        container = self.compile(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(node, node.slice, container)
        key = self.compile(node.slice)

        def run(env: Env, budget: Budget) -> object:
            try:
                return operations.item(container(env, budget), key(env, budget))
            except LookupError:
                raise ExpressionError(f"`{words}` is not there; get() takes a default") from None

        return run

    def _slice(self, node: ast.Subscript, bounds: ast.Slice, container: Run) -> Run:
        if bounds.step is not None:
            raise self._refused(node, "has a step; only [from:to] is allowed")
        start = self.compile(bounds.lower) if bounds.lower else None
        stop = self.compile(bounds.upper) if bounds.upper else None

        def run(env: Env, budget: Budget) -> object:
            first = start and start(env, budget)
            return operations.part(container(env, budget), first, stop and stop(env, budget))

        return run

    def _call(self, node: ast.Call) -> Run:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS:
            raise self._refused(node.func, "is not a known function; known are " + ", ".join(FUNCTIONS))
        function, fewest, most = FUNCTIONS[name]
        if node.keywords or not fewest <= len(node.args) <= most:
            count = str(fewest) if fewest == most else f"{fewest} to {most}"
            raise self._refused(node, f"needs {count} plain arguments")
        args = [self.compile(arg) for arg in node.args]
        return lambda env, budget: function(budget, [arg(env, budget) for arg in args])
