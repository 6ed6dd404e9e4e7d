"""The base class of products that a kernel form computes as one problem: space, default, plan and explanation come from the forms."""

from __future__ import annotations

from collections.abc import Mapping

from portatile.records import Config, DeviceInfo, Plan, Problem
from portatile.space import ParameterSpace
from portatile.workloads.gemm import forms, plan, space, waste
from portatile.workloads.gemm.product import Product


class ProductByForms(Product):
    """A product, perhaps with an epilogue, whose configurations are points of the forms."""

    meanings = forms.meanings()

    def space(self, problem: Problem, device: DeviceInfo) -> ParameterSpace:
        """The configurations that are legal for the problem on the device."""
        return space.build(problem, device)

    def default(self, problem: Problem, device: DeviceInfo) -> Config:
        """The best known configuration for the kind of device and the size; always legal."""
        return forms.default(problem, device).config()

    def plan(self, problem: Problem, config: Config, device: DeviceInfo) -> Plan:
        """The launches that pack operands, if any, the product, and with split k the reduction; the last step
        computes the elements of C.
        """
        return plan.build(problem, forms.read(config), device)

    def explained(self, config: Config) -> Mapping[str, str]:
        """The meaning of each parameter in the configuration's form, the values that are tried, and the rules that it must keep."""
        return forms.explained(config)

    def canonical(self, config: Config) -> Config:
        """The configuration with the parameters that have an effect in its form, whichever version recorded it."""
        return forms.canonical(config)

    def lowered(self, config: Config, device: DeviceInfo) -> Config:
        """The configuration without instructions and local memory that the device lacks; its form decides what replaces them."""
        return forms.read(config).lowered(device).config()

    def waste(self, problem: Problem, config: Config, device: DeviceInfo) -> float:
        """The waste of partial tiles at the edges of C and of k, and of multiprocessors that wait for the last work-group."""
        return waste.waste(problem, forms.read(config), device)
