from perfdoctor.probe.wrapper_code import wrapper_code


def test_wrappers_of_a_file_share_one_name_of_it_which_outlives_them():
    """PyTorch's profiler of Python stacks reads the names by address, when its wrappers may be gone."""

    def body():
        return None

    first, second = wrapper_code(body.__code__, "first"), wrapper_code(body.__code__, "second")
    assert first.co_filename is second.co_filename
    assert (first.co_name, second.co_name) == ("first", "second")
