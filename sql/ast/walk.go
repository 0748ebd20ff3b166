package ast

import (
	"reflect"
	"sync"
)

// Walk calls visit for n and, where visit returns true, for what is below, in
// the order of the fields. Nil nodes are not visited.
//
// It finds children by reflection, so that a new node or field needs no code
// here; trees are small beside the work that is done on them.
func Walk(n Node, visit func(Node) bool) {
	if n == nil {
		return
	}
	v := reflect.ValueOf(n)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return
	}
	walk(v, visit)
}

var nodeType = reflect.TypeOf((*Node)(nil)).Elem()

// childFields caches which fields of a struct type may hold nodes.
var childFields sync.Map // reflect.Type -> []int

func walk(v reflect.Value, visit func(Node) bool) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			walk(v.Elem(), visit)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return
		}
		if n, ok := v.Interface().(Node); ok && !visit(n) {
			return
		}
		walkFields(v.Elem(), visit)
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	case reflect.Struct:
		walkFields(v, visit)
	}
}

func walkFields(v reflect.Value, visit func(Node) bool) {
	for _, i := range fieldsOf(v.Type()) {
		walk(v.Field(i), visit)
	}
}

func fieldsOf(t reflect.Type) []int {
	if f, ok := childFields.Load(t); ok {
		return f.([]int)
	}
	var fields []int
	for i := range t.NumField() {
		if holdsNodes(t.Field(i).Type) {
			fields = append(fields, i)
		}
	}
	childFields.Store(t, fields)
	return fields
}

// holdsNodes reports whether a field of type t leads to nodes. Identifiers and
// spans held by value are not nodes to visit.
func holdsNodes(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return holdsNodes(t.Elem())
	case reflect.Pointer, reflect.Interface:
		return t.Implements(nodeType)
	}
	return false
}
