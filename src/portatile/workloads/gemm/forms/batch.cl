{# With BATCH, work-group (x, y, z) computes problem z of the batch, whose operands begin z times *_batch elements on. #}
{% if BATCH %}
    a_base += (long)get_group_id(2) * a_batch;
    b_base += (long)get_group_id(2) * b_batch;
    c_base += (long)get_group_id(2) * c_batch;
{% endif %}
